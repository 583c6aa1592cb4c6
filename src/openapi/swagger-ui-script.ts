/** What the page is about. */
export interface PageData {
  /** The OpenAPI document. */
  readonly spec: object;
  /** Headers that every response has: the introduction describes them, so the responses need not. */
  readonly commonHeaders: readonly string[];
  readonly scheme: string;
  readonly demoKey: string | undefined;
}

/** The part of Swagger UI that the page uses. https://swagger.io/docs/open-source-tools/swagger-ui/customization/plugin-api/ */
type CreateSwaggerUi = (options: object) => { preauthorizeApiKey(scheme: string, key: string): void };

interface PluginSystem {
  readonly React: {
    createElement(type: unknown, props: object, ...children: unknown[]): unknown;
    useEffect(effect: () => () => void, dependencies: readonly unknown[]): void;
    useMemo<T>(create: () => T, dependencies: readonly unknown[]): T;
  };
}

interface ResponseBodyProps {
  readonly content: unknown;
  readonly contentType?: string;
  readonly getComponent: (name: string, isContainer: boolean) => unknown;
}

interface HeadersProps {
  readonly headers: { filterNot(predicate: (header: unknown, name: string) => boolean): unknown };
}

/**
 * Starts Swagger UI. The browser gets this function as text, so it must not refer to anything outside itself.
 * @param scriptUrl where the browser has loaded the script: `<address of the service>/docs/<file>`
 */
export function startSwaggerUi(create: CreateSwaggerUi, scriptUrl: string, page: PageData): void {
  /** How many elements of an array are displayed: Swagger UI takes half a minute for 5,000 orders. */
  const DISPLAYED_ELEMENTS = 100;

  /** Adds line breaks to JSON and leaves each number as it was sent: `JSON.parse` rounds integers above 2^53. */
  function indent(json: string): string {
    let [text, previous, depth, elements] = ['', '', 0, 0];
    for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g)) {
      const isClosing = token === ']' || token === '}';
      const isFirst = previous === '[' || previous === '{';
      depth -= isClosing ? 1 : 0;
      if (isClosing ? !isFirst : isFirst || previous === ',') {
        text += `\n${'  '.repeat(depth)}`;
      }
      text += token === ':' ? ': ' : token;
      depth += token === '[' || token === '{' ? 1 : 0;
      elements += token === ',' && depth === 1 ? 1 : 0;
      if (elements === DISPLAYED_ELEMENTS) {
        return `${text}\n  …`;
      }
      previous = token;
    }
    return text;
  }

  /** @returns the elements of a JSON array; 1 for another JSON value, 0 for other text */
  function elementsOf(text: string): number {
    try {
      const value: unknown = JSON.parse(text);
      return Array.isArray(value) ? Math.max(value.length, 1) : 1;
    } catch {
      return 0;
    }
  }

  const plugin = {
    wrapComponents: {
      // "Cancel" would end the input of parameters, and could be mistaken for the cancel of an order.
      TryItOutButton: () => () => null,
      responseBody:
        (Original: unknown, { React }: PluginSystem) =>
        (props: ResponseBodyProps) => {
          const json = typeof props.content === 'string' && /json/i.test(props.contentType ?? '') ? props.content : '';
          const elements = React.useMemo(() => elementsOf(json), [json]);
          const text = React.useMemo(() => indent(json), [json]);
          const url = React.useMemo(() => URL.createObjectURL(new Blob([json], { type: 'application/json' })), [json]);
          React.useEffect(() => () => URL.revokeObjectURL(url), [url]);
          if (elements === 0) {
            return React.createElement(Original, props);
          }
          const isWhole = elements <= DISPLAYED_ELEMENTS;
          const code = { language: 'json', downloadable: isWhole, canCopy: isWhole, fileName: 'response.json' };
          const size = `${(json.length / 1e6).toFixed(1)} MB`;
          return React.createElement(
            'div',
            {},
            React.createElement('h5', {}, 'Response body'),
            !isWhole &&
              React.createElement(
                'p',
                {},
                `The first ${DISPLAYED_ELEMENTS} of ${elements.toLocaleString('en')} orders. `,
                React.createElement('a', { href: url, download: 'orders.json' }, `Download all (${size})`),
              ),
            React.createElement(props.getComponent('HighlightCode', true), code, text),
          );
        },
      headers:
        (Original: unknown, { React }: PluginSystem) =>
        (props: HeadersProps) =>
          React.createElement(Original, {
            ...props,
            headers: props.headers.filterNot((_header, name) => page.commonHeaders.includes(name)),
          }),
    },
  };

  const ui = create({
    // The policy of the page lets it call only the server that it comes from.
    spec: { ...page.spec, servers: [{ url: new URL('../v1', scriptUrl).href, description: 'This server' }] },
    dom_id: '#swagger-ui',
    displayRequestDuration: true,
    tryItOutEnabled: true,
    plugins: [plugin],
    // Swagger UI would copy the parsed body, element by element, and displays only the text.
    responseInterceptor: (response: { body?: unknown; obj?: unknown }) => {
      delete response.body;
      delete response.obj;
      return response;
    },
    onComplete: () => {
      if (page.demoKey !== undefined) {
        ui.preauthorizeApiKey(page.scheme, page.demoKey);
      }
    },
  });
}
