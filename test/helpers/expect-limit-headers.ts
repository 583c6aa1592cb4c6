/** Checks that an answer says where its caller stands, as every answer under the version segment does. */
export function expectLimitHeaders(headers: Headers | Readonly<Record<string, string | string[] | undefined>>): void {
  for (const name of ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']) {
    expect([name, headers instanceof Headers ? headers.get(name) : headers[name]]).toEqual([
      name,
      expect.stringMatching(/^\d+$/),
    ]);
  }
}
