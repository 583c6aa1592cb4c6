import { connect } from 'node:net';
import { expectDocumented } from './contract.js';

/** An answer as it stood on the wire. */
export interface WireResponse {
  readonly version: string;
  readonly status: number;
  /** Names in lower case, values as they were sent; a header that is sent twice has two values. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  readonly body: string;
}

export interface Exchange {
  readonly responses: readonly WireResponse[];
  /** Whether the server has closed the connection. */
  readonly closed: boolean;
  /** Everything that the server sent. */
  readonly text: string;
}

interface ExchangeOptions {
  /** What to wait for: so many answers, or that the server closes the connection. */
  readonly until: number | 'closed';
  /** Methods of the requests, where an answer's body depends on it: the answer to HEAD has none. */
  readonly methods?: readonly string[];
  /** Sent once the first bytes of an answer have arrived. */
  readonly thenSend?: string;
  readonly withinMs?: number;
}

/**
 * Sends bytes to the service on a connection of their own and reads what comes back, whatever HTTP libraries would make
 * of either. Rejects when what is waited for does not happen in time, and when an answer of the API is not one that the
 * document describes.
 */
export function exchange(port: number, bytes: string | Buffer, options: ExchangeOptions): Promise<Exchange> {
  const { until, methods = [], thenSend, withinMs = 5_000 } = options;
  return new Promise((resolve, reject) => {
    let received = Buffer.alloc(0);
    const socket = connect(port, '127.0.0.1');
    const finish = (closed: boolean): void => {
      clearTimeout(timer);
      socket.destroy();
      try {
        const responses = parseResponses(received, closed, methods);
        if (targetsApi(bytes)) {
          responses.forEach((response, index) => {
            checkResponse(response, methods[index]);
          });
        }
        resolve({ responses, closed, text: received.toString('latin1') });
      } catch (error) {
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    };
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`No end of the exchange within ${withinMs} ms. So far: ${received.toString('latin1')}`));
    }, withinMs);
    if (thenSend !== undefined) {
      socket.once('data', () => socket.write(Buffer.from(thenSend, 'latin1')));
    }
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (typeof until === 'number' && parseResponses(received, false, methods).length >= until) {
        finish(false);
      }
    });
    // A reset is a way of closing, too.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      finish(true);
    });
    socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  });
}

/** Whether all that is asked for lies under the version segment. A preflight asks the browser's question, not the API's. */
function targetsApi(bytes: string | Buffer): boolean {
  const text = bytes.toString('latin1');
  const targets = [...text.matchAll(/^[A-Z]+ (\S+) HTTP\/1/gm)].map(([, target]) => target ?? '');
  const isPreflight = text.startsWith('OPTIONS ') && /^Access-Control-Request-Method:/im.test(text);
  return targets.length > 0 && targets.every((target) => /^\/v1(?:\/|$)/.test(target)) && !isPreflight;
}

function checkResponse({ status, headers, body }: WireResponse, method: string | undefined): void {
  if (status < 200) {
    return;
  }
  const header = (name: string): string | null | undefined => {
    const values = headers.get(name.toLowerCase());
    return values !== undefined && values.length > 1 ? null : values?.[0];
  };
  expectDocumented({ status, header, body: method === 'HEAD' ? undefined : Buffer.from(body, 'latin1').toString() });
}

/** The text of a request with the usual headers. */
export function requestText(
  method: string,
  target: string,
  { key, headers = [], body = '' }: { key?: string; headers?: readonly string[]; body?: string } = {},
): string {
  const lines = [
    `${method} ${target} HTTP/1.1`,
    'Host: localhost',
    ...(key === undefined ? [] : [`Authorization: Bearer ${key}`]),
    ...headers,
  ];
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}

/** The complete answers at the start of what was received. Interim answers (1xx) are among them. */
export function parseResponses(received: Buffer, closed: boolean, methods: readonly string[]): WireResponse[] {
  const responses: WireResponse[] = [];
  let rest = received.toString('latin1');
  for (;;) {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) {
      return responses;
    }
    const [statusLine = '', ...lines] = rest.slice(0, end).split('\r\n');
    const [, version = '', status = '0'] = /^HTTP\/(\d\.\d) (\d{3}) /.exec(statusLine) ?? [];
    const headers = new Map<string, string[]>();
    for (const line of lines) {
      const colon = line.indexOf(':');
      const name = line.slice(0, colon).toLowerCase();
      headers.set(name, [...(headers.get(name) ?? []), line.slice(colon + 1).trim()]);
    }
    const after = rest.slice(end + 4);
    const hasBody = !/^(?:1..|204|304)$/.test(status) && methods[responses.length] !== 'HEAD';
    const length = bodyLength(headers, after, hasBody, closed);
    if (length === undefined || after.length < length.raw) {
      return responses;
    }
    responses.push({ version, status: Number(status), headers, body: length.text });
    rest = after.slice(length.raw);
  }
}

function bodyLength(
  headers: ReadonlyMap<string, readonly string[]>,
  after: string,
  hasBody: boolean,
  closed: boolean,
): { raw: number; text: string } | undefined {
  if (!hasBody) {
    return { raw: 0, text: '' };
  }
  const length = headers.get('content-length')?.[0];
  if (length !== undefined) {
    return { raw: Number(length), text: after.slice(0, Number(length)) };
  }
  if (headers.get('transfer-encoding')?.[0] === 'chunked') {
    return chunkedBody(after);
  }
  return closed ? { raw: after.length, text: after } : undefined;
}

function chunkedBody(after: string): { raw: number; text: string } | undefined {
  let [at, text] = [0, ''];
  for (;;) {
    const lineEnd = after.indexOf('\r\n', at);
    if (lineEnd === -1) {
      return undefined;
    }
    const size = Number.parseInt(after.slice(at, lineEnd), 16);
    text += after.slice(lineEnd + 2, lineEnd + 2 + size);
    at = lineEnd + 2 + size + 2;
    if (at > after.length) {
      return undefined;
    }
    if (size === 0) {
      return { raw: at, text };
    }
  }
}
