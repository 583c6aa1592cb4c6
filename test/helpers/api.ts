/** A request to the API by `fetch`, with a key. */
export async function call(
  baseUrl: string,
  method: string,
  path: string,
  key?: string,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${baseUrl}/v1${path}`, {
    method,
    headers: { ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }), ...headers },
  });
}

export function listOrders(baseUrl: string, key?: string, headers?: Record<string, string>): Promise<Response> {
  return call(baseUrl, 'GET', '/store/orders', key, headers);
}

export function cancelOrder(baseUrl: string, id: string, key?: string): Promise<Response> {
  return call(baseUrl, 'DELETE', `/store/orders/${id}`, key);
}

/** The body of an error answer, checked to be exactly the published shape and to agree with the status line. */
export async function errorOf(response: Response): Promise<{ code: string; message: string; status: number }> {
  expect(response.headers.get('content-type')).toBe('application/json');
  const body = (await response.json()) as { code: string; message: string; status: number };
  expect(Object.keys(body)).toEqual(['code', 'message', 'status']);
  expect(body.status).toBe(response.status);
  expect(body.code).toMatch(/^[a-z]+(?:_[a-z]+)*$/);
  expect(body.message.length).toBeGreaterThan(0);
  return body;
}
