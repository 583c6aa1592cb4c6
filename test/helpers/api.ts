import { expectDocumented, type RequestLine } from './contract.js';

/** Sends a request to the API with `fetch` and checks the response against `openapi.json`. */
export async function call(
  baseUrl: string,
  method: string,
  path: string,
  key?: string,
  headers: Record<string, string> = {},
): Promise<Response> {
  const response = await fetch(`${baseUrl}/v1${path}`, {
    method,
    headers: { ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }), ...headers },
  });
  return documented(response, { method, path: `/v1${path}` });
}

/** Checks an error immediately, and a list when the test reads its body: it may be long, slow or truncated. */
async function documented(response: Response, request: RequestLine): Promise<Response> {
  const check = (body: string | undefined): void => {
    expectDocumented(
      { status: response.status, header: (name) => response.headers.get(name) ?? undefined, body },
      request,
    );
  };
  if (response.status !== 200) {
    // Read once, because a clone of the response takes longer than the request.
    const body = await response.text();
    check(request.method === 'HEAD' ? undefined : body);
    const { status, statusText, headers } = response;
    return new Response(body === '' ? null : body, { status, statusText, headers });
  }
  check(undefined);
  const readText = response.text.bind(response);
  const text = async (): Promise<string> => {
    const body = await readText();
    check(request.method === 'HEAD' ? undefined : body);
    return body;
  };
  return Object.assign(response, { text, json: async () => JSON.parse(await text()) as unknown });
}

export function listOrders(baseUrl: string, key?: string, headers?: Record<string, string>): Promise<Response> {
  return call(baseUrl, 'GET', '/store/orders', key, headers);
}

export function cancelOrder(baseUrl: string, id: string, key?: string): Promise<Response> {
  return call(baseUrl, 'DELETE', `/store/orders/${id}`, key);
}

/** Cancels an order. @returns `204`, or the status and the error code, such as `404 order_not_found` */
export async function outcomeOfCancel(baseUrl: string, id: string, key: string): Promise<string> {
  const response = await cancelOrder(baseUrl, id, key);
  return response.status === 204 ? '204' : `${response.status} ${(await errorOf(response)).code}`;
}

/** @returns the body of an error response, after checking that it has the published shape and repeats the status */
export async function errorOf(response: Response): Promise<{ code: string; message: string; status: number }> {
  expect(response.headers.get('content-type')).toBe('application/json');
  const body = (await response.json()) as { code: string; message: string; status: number };
  expect(Object.keys(body)).toEqual(['code', 'message', 'status']);
  expect(body.status).toBe(response.status);
  expect(body.code).toMatch(/^[a-z]+(?:_[a-z]+)*$/);
  expect(body.message.length).toBeGreaterThan(0);
  return body;
}
