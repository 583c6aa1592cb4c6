import { createInterface } from 'node:readline';
import { log } from './log.mjs';
import { describe, prismaCode } from './user-facing-error.mjs';

/** @import { Engine } from './engine.mjs' */

/** Where the native engine puts its own errors in the range that JSON-RPC 2.0 leaves to servers. */
const ENGINE_ERROR = 4466;

let printed = 0;

/**
 * Prints on the standard output of the CLI, which listens for this one request among our responses.
 *
 * @param {string} text
 */
export function print(text) {
  printed += 1;
  send({ id: printed, method: 'print', params: { content: text.replace(/\n$/, '') } });
}

/**
 * Answers JSON-RPC 2.0 requests, one a line and one after the other, until standard input ends or the signal is given.
 * Whichever comes cancels what is under way: the CLI is gone, and a statement that waits for a lock would wait unseen.
 *
 * @param {Engine} engine
 * @param {AbortSignal} signal
 */
export async function serve(engine, signal) {
  // The engine runs on microtasks, so a panic in it rejects no promise. It has to be answered like any other failure:
  // when the process dies over a request instead, the CLI reports nothing and exits with 0.
  const panicked = new Promise((_resolve, reject) => process.on('uncaughtException', reject));
  panicked.catch(() => {});

  const lines = createInterface({ input: process.stdin, crlfDelay: Infinity, signal });
  lines.once('close', () => {
    engine.cancel().catch((error) => log('ERROR', describe(error)));
  });
  for await (const line of lines) {
    const { id, method, params } = JSON.parse(line);
    // Without a method it is the acknowledgement of something printed.
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
