import type { WireResponse } from './raw-client.js';

/** Implementation details that must not leak: stack frames, paths, SQL, names of libraries. */
const INTERNALS =
  /\n\s+at |node_modules|[\\/](?:src|dist|work)[\\/]|\.[cm]?[jt]s\b|\bError:|SELECT|prisma|postgres|express|nest/i;

const FIXED_HEADERS = {
  'content-type': ['application/json'],
  'cache-control': ['no-store'],
  'x-content-type-options': ['nosniff'],
  'content-security-policy': ["default-src 'none'; frame-ancestors 'none'"],
};

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
  const { version, headers, body } = response ?? { version: '', headers: new Map<string, string[]>(), body: '' };
  expect([response?.status, body]).toEqual([status, method === 'HEAD' ? '' : expect.stringContaining(`"${code}"`)]);
  expect(version).toBe('1.1');
  expect(Object.fromEntries(headers)).toMatchObject(FIXED_HEADERS);
  expect(headers.get('date')?.[0]).toMatch(/^\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT$/);
  expect([...headers.keys()]).not.toContain('x-powered-by');
  expect([...headers.values()].filter((values) => values.length > 1)).toEqual([]);
  if (method !== 'HEAD') {
    expect(headers.get('content-length')).toEqual([String(body.length)]);
    const parsed = JSON.parse(body) as Record<string, unknown>;
    expect(Object.keys(parsed)).toEqual(['code', 'message', 'status']);
    expect(parsed).toEqual({ code, message: expect.stringMatching(/^[A-Z].+\.$/) as unknown, status });
    expect(body).not.toMatch(INTERNALS);
  }
}

/** Checks that a response carries every limit header exactly once, or none of them. */
export function expectLimits(response: WireResponse | undefined, expected: 'limits' | 'no limits'): void {
  const names = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'ratelimit-policy', 'ratelimit'];
  const present = names.filter((name) => response?.headers.get(name)?.length === 1);
  expect(present).toEqual(expected === 'limits' ? names : []);
}
