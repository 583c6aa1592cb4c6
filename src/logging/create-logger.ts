import pino from 'pino';
import { type LogOutput, openOutput } from './log-output.js';

/** Injection token of the {@link RequestLog}. */
export const REQUEST_LOG = Symbol('request log');

/** Writes the log line of a request. Undefined fields are left out. */
export type RequestLog = (fields: Readonly<Record<string, unknown>>) => void;

/** A logger of JSON lines on stdout, or of readable lines when stdout is a terminal. Create one per process. */
export async function createLogger(level: pino.LevelWithSilent): Promise<pino.Logger> {
  const output = openOutput((dropped) => {
    logger.warn({ dropped }, 'dropped log lines');
  });
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  const logger = pino(options, process.stdout.isTTY ? await readable(output) : output);
  return logger;
}

async function readable(output: LogOutput): Promise<LogOutput> {
  // Imported on demand: a service whose log is collected does not need it.
  const { formatLine } = await import('./format-line.js');
  return {
    write: (line) => output.write(formatLine(line)),
    flush: () => {
      output.flush();
    },
  };
}
