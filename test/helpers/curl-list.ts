import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** What curl exits with when the connection is closed before the response has ended, and when it is reset. */
export const CURL_EXIT = { partialFile: 18, receiveError: 56 } as const;

/**
 * Requests the list with curl, and reads only the first bytes. For broken connections: Node's client can take a reset behind bytes that it
 * has not read for a regular end.
 * @returns a function that reads the rest, and returns the exit code
 */
export async function curlList(
  baseUrl: string,
  key: string,
  { version, encoding = 'identity' }: { version: '1.0' | '1.1'; encoding?: 'identity' | 'gzip' },
): Promise<() => Promise<number>> {
  const headers = ['--header', `Authorization: Bearer ${key}`, '--header', `Accept-Encoding: ${encoding}`];
  const child = spawn('curl', ['--silent', `--http${version}`, ...headers, `${baseUrl}/v1/store/orders`], {
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: 120_000,
  });
  const closed = once(child, 'close') as Promise<[number]>;
  await once(child.stdout, 'readable');
  return async () => {
    child.stdout.resume();
    return (await closed)[0];
  };
}
