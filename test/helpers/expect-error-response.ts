import type { WireResponse } from './raw-client.js';

/** Implementation details that must not leak: stack frames, paths, SQL, names of libraries. */
const INTERNALS =
  /\n\s+at |node_modules|[\\/](?:src|dist|work)[\\/]|\.[cm]?[jt]s\b|\bError:|SELECT|prisma|postgres|express|nest/i;

/**
 * Checks that a response is an error in the published shape and that its headers describe its body exactly.
 * @param method of the request: a response to HEAD has no body
 */
export function expectErrorResponse(
  response: WireResponse | undefined,
  status: number,
  code: string,
  method = 'GET',
): void {
  expect([response?.status, bodyCode(response, method)]).toEqual([status, method === 'HEAD' ? undefined : code]);
  if (response === undefined) {
    return;
  }
  expect(response.version).toBe('1.1');
  expect(Object.fromEntries([...response.headers].filter(([name]) => name in FIXED_HEADERS))).toEqual(FIXED_HEADERS);
  expect(response.headers.get('date')?.[0]).toMatch(/^\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT$/);
  expect([...response.headers.keys()]).not.toContain('x-powered-by');
  expect([...response.headers.values()].filter((values) => values.length > 1)).toEqual([]);
  if (method === 'HEAD') {
    expect(response.body).toBe('');
    return;
  }
  expect(response.headers.get('content-length')).toEqual([String(response.body.length)]);
  const body = JSON.parse(response.body) as Record<string, unknown>;
  expect(Object.keys(body)).toEqual(['code', 'message', 'status']);
  expect(body).toEqual({ code, message: expect.stringMatching(/^[A-Z].+\.$/) as unknown, status });
  expect(response.body).not.toMatch(INTERNALS);
}

const FIXED_HEADERS = {
  'content-type': ['application/json'],
  'cache-control': ['no-store'],
  'x-content-type-options': ['nosniff'],
  'content-security-policy': ["default-src 'none'; frame-ancestors 'none'"],
};

function bodyCode(response: WireResponse | undefined, method: string): unknown {
  if (response === undefined || method === 'HEAD') {
    return undefined;
  }
  try {
    return (JSON.parse(response.body) as { code?: unknown }).code;
  } catch {
    return response.body;
  }
}

/** Checks that a response carries every limit header exactly once, or none of them. */
export function expectLimits(response: WireResponse | undefined, expected: 'limits' | 'no limits'): void {
  const names = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'ratelimit-policy', 'ratelimit'];
  const present = names.filter((name) => response?.headers.get(name)?.length === 1);
  expect(present).toEqual(expected === 'limits' ? names : []);
}
