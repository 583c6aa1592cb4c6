import { type RequestLine, expectDocumented } from './contract.js';

/** A request to the API by `fetch`, with a key. The answer is checked against the document. */
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

/** Errors are checked at once, a list as soon as its body has been read: it may be long, slow or cut. */
async function documented(response: Response, asked: RequestLine): Promise<Response> {
  const check = (body: string | undefined): void => {
    expectDocumented(
      { status: response.status, header: (name) => response.headers.get(name) ?? undefined, body },
      asked,
    );
  };
  if (response.status !== 200) {
    check(asked.method === 'HEAD' ? undefined : await response.clone().text());
    return response;
  }
  check(undefined);
  const readText = response.text.bind(response);
  const text = async (): Promise<string> => {
    const body = await readText();
    check(asked.method === 'HEAD' ? undefined : body);
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
