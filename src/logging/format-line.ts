import { type PrettyOptions, prettyFactory } from 'pino-pretty';

/** Of a message its context and text, with a stack below it; of a request what it was and how it ended. */
const messageFormat: NonNullable<PrettyOptions['messageFormat']> = (line) => {
  const { context, msg, detail, method, path, route, status = 'aborted' } = line as Record<string, string | undefined>;
  const text = msg ?? `${method} ${path ?? route} ${status}`;
  return `${context === undefined ? '' : `[${context}] `}${text}${detail === undefined ? '' : `\n${detail}`}`;
};

/** Makes a JSON line readable, for a terminal. */
export const formatLine = prettyFactory({
  // Node's own reading of NO_COLOR, FORCE_COLOR, NODE_DISABLE_COLORS and TERM.
  colorize: process.stdout.isTTY && process.stdout.hasColors(),
  singleLine: true,
  translateTime: 'SYS:HH:MM:ss.l',
  ignore: 'context,detail',
  messageFormat,
});
