import { createInterface } from 'node:readline';
import { log } from './log.mjs';
import { describe, prismaCode } from './user-facing-error.mjs';

/** @import { Engine } from './engine.mjs' */

/** The JSON-RPC error code of the native engine. */
const ENGINE_ERROR = 4466;

let printed = 0;

/**
 * Prints to the standard output of the CLI, by a request among the responses.
 *
 * @param {string} text
 */
export function print(text) {
  printed += 1;
  send({ id: printed, method: 'print', params: { content: text.replace(/\n$/, '') } });
}

/**
 * Handles JSON-RPC 2.0 requests, one per line and one at a time, until stdin ends or the signal aborts. Either cancels
 * running statements, which could otherwise wait for a lock after the CLI has exited.
 *
 * @param {Engine} engine
 * @param {AbortSignal} signal
 */
export async function serve(engine, signal) {
  // A panic of the engine happens in a microtask and rejects no promise. It needs a response like any other error:
  // when the process crashes instead, the CLI reports nothing and exits with 0.
  const panicked = new Promise((_resolve, reject) => process.on('uncaughtException', reject));
  panicked.catch(() => {});

  const lines = createInterface({ input: process.stdin, crlfDelay: Infinity, signal });
  lines.once('close', () => {
    engine.cancel().catch((error) => log('ERROR', describe(error)));
  });
  for await (const line of lines) {
    const { id, method, params } = JSON.parse(line);
    // The CLI's response to a print request.
    if (method === undefined) continue;
    try {
      send({ id, result: (await Promise.race([engine.call(method, params), panicked])) ?? null });
    } catch (error) {
      const data = { is_panic: false, message: describe(error), error_code: prismaCode(error) };
      send({
        id,
        error: { code: ENGINE_ERROR, message: 'An error happened. Check the data field for details.', data },
      });
    }
  }
}

/** @param {Record<string, unknown>} message */
function send(message) {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}
