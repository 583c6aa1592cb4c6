import { connect } from 'node:net';
import { expectDocumented } from './contract.js';

/** A response as received on the socket. */
export interface WireResponse {
  readonly version: string;
  readonly status: number;
  /** Values by lower-case name, unchanged and in order; a repeated header has several. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  readonly body: string;
}

export interface Exchange {
  readonly responses: readonly WireResponse[];
  /** Whether the server has closed the connection. */
  readonly closed: boolean;
  /** All bytes that the server sent, as Latin-1. */
  readonly text: string;
}

const TIMEOUT_MS = 20_000;

interface ExchangeOptions {
  /** Ends the exchange: after this many responses, or when the server closes the connection. */
  readonly until: number | 'closed';
  /** Methods of the requests in order; needed for HEAD, whose response has no body. */
  readonly methods?: readonly string[];
  /** Sent after the first bytes of a response have arrived. */
  readonly thenSend?: string | undefined;
}

/**
 * Sends bytes on a new connection and parses the responses, without an HTTP client library. Rejects on a timeout, and when
 * `openapi.json` does not describe a response of the API.
 */
export function exchange(port: number, bytes: string | Buffer, options: ExchangeOptions): Promise<Exchange> {
  const { until, methods = [], thenSend } = options;
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
      reject(new Error(`Timed out after ${TIMEOUT_MS} ms. Received: ${received.toString('latin1')}`));
    }, TIMEOUT_MS);
    if (thenSend !== undefined) {
      socket.once('data', () => socket.write(Buffer.from(thenSend, 'latin1')));
    }
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (typeof until === 'number' && parseResponses(received, false, methods).length >= until) {
        finish(false);
      }
    });
    // A reset also closes the connection.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      finish(true);
    });
    socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  });
}

/** Whether all targets are under the version segment. CORS preflights are not part of the documented API. */
function targetsApi(bytes: string | Buffer): boolean {
  const text = bytes.toString('latin1');
  const targets = [...text.matchAll(/^[A-Z]+ (\S+) HTTP\/1/gm)].map(([, target]) => target ?? '');
  const isPreflight = text.startsWith('OPTIONS ') && /^Access-Control-Request-Method:/im.test(text);
  return targets.length > 0 && targets.every((target) => /^\/v1(?:\/|$)/.test(target)) && !isPreflight;
}

/** The statuses of errors of the HTTP parser: a response to input that never becomes a request has no rate-limit headers. */
const PARSER_STATUSES = new Set([400, 408, 431]);

function checkResponse({ status, headers, body }: WireResponse, method: string | undefined): void {
  if (status < 200 || (PARSER_STATUSES.has(status) && !headers.has('x-ratelimit-limit'))) {
    return;
  }
  const header = (name: string): string | null | undefined => {
    const values = headers.get(name.toLowerCase());
    return values !== undefined && values.length > 1 ? null : values?.[0];
  };
  expectDocumented({ status, header, body: method === 'HEAD' ? undefined : Buffer.from(body, 'latin1').toString() });
}

interface RequestParts {
  readonly key?: string | undefined;
  readonly headers?: readonly string[];
  readonly body?: string;
}

/** Sends a request on a connection of its own. @returns its response */
export async function responseTo(
  port: number,
  method: string,
  target: string,
  parts?: RequestParts,
): Promise<WireResponse> {
  const { responses } = await exchange(port, requestText(method, target, parts), { until: 1, methods: [method] });
  return responses[0]!;
}

/** Builds the text of a request with a Host header. */
export function requestText(
  method: string,
  target: string,
  { key, headers = [], body = '' }: RequestParts = {},
): string {
  const lines = [
    `${method} ${target} HTTP/1.1`,
    'Host: localhost',
    ...(key === undefined ? [] : [`Authorization: Bearer ${key}`]),
    ...headers,
  ];
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}

/** Parses the complete responses at the start of the received bytes, including interim ones (1xx). */
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
