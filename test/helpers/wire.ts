import { once } from 'node:events';
import { gunzipSync } from 'node:zlib';
import { expectDocumented } from './contract.js';
import { RawClient, type WireResponse } from './raw-client.js';
import { waitFor } from './wait-for.js';

export interface Exchange {
  readonly responses: readonly WireResponse[];
  /** Whether the server has closed the connection. */
  readonly closed: boolean;
  /** All bytes that the server sent, as Latin-1. */
  readonly text: string;
}

interface ExchangeOptions {
  /** Ends the exchange: after this many responses, or when the server closes the connection. */
  readonly until: number | 'closed';
  /** Sent after the first bytes of a response have arrived. */
  readonly thenSend?: string;
}

/**
 * Sends text on a new connection, without an HTTP client library. Rejects on a timeout, and when `openapi.json` does not
 * describe a response of the API.
 */
export async function exchange(port: number, text: string, { until, thenSend }: ExchangeOptions): Promise<Exchange> {
  const client = await RawClient.open(port, text);
  try {
    if (thenSend !== undefined) {
      await once(client.socket, 'data');
      client.socket.write(thenSend);
    }
    await waitFor(
      () => client.closed || client.responses.length >= (until === 'closed' ? Infinity : until),
      () => `the exchange ends; received: ${client.received}`,
    );
  } finally {
    client.socket.destroy();
  }
  const { responses, closed, received } = client;
  if (targetsApi(text)) {
    responses.forEach((response) => {
      checkResponse(response, text.startsWith('HEAD '));
    });
  }
  return { responses, closed, text: received };
}

/** Whether all targets are under the version segment. CORS preflights are not part of the documented API. */
function targetsApi(text: string): boolean {
  const targets = Array.from(text.matchAll(/^[A-Z]+ (\S+) HTTP\/1/gm), ([, target = '']) => target);
  const isPreflight = text.startsWith('OPTIONS ') && /^Access-Control-Request-Method:/im.test(text);
  return targets.length > 0 && targets.every((target) => /^\/v1(?:\/|$)/.test(target)) && !isPreflight;
}

/** The statuses of errors of the HTTP parser: a response to input that never becomes a request has no rate-limit headers. */
const PARSER_STATUSES = new Set([400, 408, 431]);

function checkResponse(response: WireResponse, isHead: boolean): void {
  const { status, headers } = response;
  if (status < 200 || (PARSER_STATUSES.has(status) && !headers.has('x-ratelimit-limit'))) {
    return;
  }
  const header = (name: string): string | null | undefined => {
    const values = headers.get(name.toLowerCase());
    return values !== undefined && values.length > 1 ? null : values?.[0];
  };
  expectDocumented({ status, header, body: isHead ? undefined : textOf(response) });
}

/** @returns the body, decompressed */
export function textOf({ headers, body }: WireResponse): string {
  const bytes = Buffer.from(body, 'latin1');
  const isCompressed = headers.get('content-encoding')?.[0] === 'gzip';
  return (isCompressed ? gunzipSync(bytes) : bytes).toString();
}

interface RequestParts {
  readonly key?: string | undefined;
  readonly headers?: readonly string[];
  readonly body?: string;
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

/** Sends a request on a connection of its own. @returns its response */
export async function responseTo(
  port: number,
  method: string,
  target: string,
  parts?: RequestParts,
): Promise<WireResponse> {
  const { responses } = await exchange(port, requestText(method, target, parts), { until: 1 });
  return responses[0]!;
}

/** Reads the list, and expects the encoding that the request asks for. */
export async function readList(
  port: number,
  key: string,
  encoding: 'gzip' | 'identity' = 'gzip',
): Promise<{ etag: string | undefined; text: string }> {
  const headers = [`Accept-Encoding: ${encoding}`];
  const response = await responseTo(port, 'GET', '/v1/store/orders', { key, headers });
  const used = response.headers.get('content-encoding')?.[0] ?? 'identity';
  expect([response.status, used]).toEqual([200, encoding]);
  return { etag: response.headers.get('etag')?.[0], text: textOf(response) };
}
