/* global SwaggerUIBundle, document, location, window */
// The page of `@nestjs/swagger` loads this before it starts Swagger UI, and adds what lists of orders and phones need.
// https://swagger.io/docs/open-source-tools/swagger-ui/customization/plugin-api/
{
  /** Swagger UI takes half a minute for 5,000 orders. */
  const DISPLAYED_ORDERS = 100;
  /** Headers of every response: the introduction describes them once. */
  const COMMON_HEADERS = /^(X-RateLimit-|RateLimit|X-Request-Id)/;

  /** Numbers keep the digits that were received: Swagger UI rounds ids above 2^53. */
  const exactNumber = (_key, value, { source }) => (typeof value === 'number' ? JSON.rawJSON(source) : value);

  /** An object without others in it. */
  const ORDER = /\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\}/g;

  /** @returns how many orders there are, and the text of the first ones; undefined for everything but a complete list */
  function readList(content) {
    let list;
    try {
      list = JSON.parse(content);
    } catch {
      return undefined;
    }
    if (!Array.isArray(list)) {
      return undefined;
    }
    const first = [...content.matchAll(ORDER).take(DISPLAYED_ORDERS)].join();
    return { length: list.length, text: JSON.stringify(JSON.parse(`[${first}]`, exactNumber), null, 2) };
  }

  const orders = {
    wrapComponents: {
      responseBody:
        (Original, { React: { createElement, useMemo } }) =>
        (props) => {
          const { content, getComponent } = props;
          const list = useMemo(() => readList(String(content)), [content]);
          if (list === undefined) {
            return createElement(Original, props);
          }
          const isCut = list.length > DISPLAYED_ORDERS;
          const text = isCut ? `${list.text.slice(0, -2)},\n  …` : list.text;
          const download = ({ currentTarget }) => {
            currentTarget.href = URL.createObjectURL(new Blob([content], { type: 'application/json' }));
          };
          return createElement(
            'div',
            {},
            createElement('h5', {}, 'Response body'),
            isCut && `The first ${DISPLAYED_ORDERS} of ${list.length.toLocaleString('en')} orders. `,
            createElement('a', { href: '#', download: 'orders.json', onClick: download }, 'Download all'),
            createElement(getComponent('HighlightCode', true), { language: 'json' }, text),
          );
        },
      headers:
        (Original, { React: { createElement } }) =>
        (props) =>
          createElement(Original, {
            ...props,
            headers: props.headers.filterNot((_header, name) => COMMON_HEADERS.test(name)),
          }),
    },
  };

  const start = SwaggerUIBundle;
  const startWithOrders = (options) =>
    start({
      ...options,
      // The policy of the page lets it call only the server that it comes from, perhaps below a path of a proxy.
      spec: { ...options.spec, servers: [{ url: new URL('v1', location.href).href, description: 'This server' }] },
      plugins: [...options.plugins, orders],
      // Swagger UI would copy the parsed body, element by element, and displays only the text.
      responseInterceptor: (response) => {
        delete response.body;
        delete response.obj;
        return response;
      },
    });
  window.SwaggerUIBundle = Object.assign(startWithOrders, start);

  const viewport = '<meta name="viewport" content="width=device-width, initial-scale=1" />';
  document.head.insertAdjacentHTML('beforeend', viewport);
}
