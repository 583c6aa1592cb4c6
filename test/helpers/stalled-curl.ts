import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';

/** `CURLE_RECV_ERROR`: the connection was reset. */
export const CURL_RECV_ERROR = 56;

/**
 * curl as a client of HTTP/1.0 that requests the list, reads the first bytes and then stops reading. Node's own client reports a reset
 * behind data that it has not read as a regular end.
 */
export class StalledCurl {
  private constructor(
    private readonly child: ChildProcess,
    private readonly output: Readable,
  ) {}

  static async open(baseUrl: string, key: string): Promise<StalledCurl> {
    const args = ['--silent', '--http1.0', '--header', `Authorization: Bearer ${key}`, `${baseUrl}/v1/store/orders`];
    const child = spawn('curl', args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'readable');
    return new StalledCurl(child, child.stdout);
  }

  /** Reads until curl ends. @returns its exit code, and whether it has printed a whole list */
  async readToEnd(): Promise<{ exitCode: number | null; isWhole: boolean }> {
    let end = '';
    this.output.on('data', (chunk: Buffer) => (end = (end + chunk.toString('latin1')).slice(-2)));
    await once(this.child, 'close');
    return { exitCode: this.child.exitCode, isWhole: end === '}]' };
  }
}
