import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { listen } from './listen.js';

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  /** 2: server, 3: client. */
  readonly kind: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** 2: error. */
  readonly status: { readonly code?: number };
  /** Attributes of the sending service. */
  readonly resource: Readonly<Record<string, unknown>>;
}

type Json = Record<string, unknown>;
type KeyValues = readonly { key: string; value: Json }[];

interface Export {
  readonly resourceSpans: readonly {
    readonly resource: { attributes: KeyValues };
    readonly scopeSpans: readonly { readonly spans: readonly (Json & { attributes: KeyValues })[] }[];
  }[];
}

/** A collector that receives spans over OTLP/HTTP. */
export class OtlpReceiver {
  /** Of the exports in JSON. */
  readonly spans: ReceivedSpan[] = [];
  /** All received bodies, as text; names and values of attributes can be read in protobuf, too. */
  text = '';
  readonly contentTypes = new Set<string | undefined>();
  url = '';
  readonly #server: Server = createServer((req, res) => void this.#receive(req, res));

  static async start(): Promise<OtlpReceiver> {
    const receiver = new OtlpReceiver();
    receiver.url = `http://127.0.0.1:${await listen(receiver.#server)}`;
    return receiver;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #receive(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const body = await text(req);
    const contentType = req.headers['content-type'];
    this.contentTypes.add(contentType);
    this.text += body;
    if (req.url !== '/v1/traces') {
      res.writeHead(404).end();
    } else if (contentType === 'application/json') {
      this.spans.push(...spansIn(JSON.parse(body) as Export));
      res.end('{}');
    } else {
      res.end();
    }
  }
}

function spansIn({ resourceSpans }: Export): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans
      .flatMap(({ spans }) => spans)
      .map((span) => {
        const converted = { attributes: valuesOf(span.attributes), resource: valuesOf(resource.attributes) };
        return { ...span, ...converted } as unknown as ReceivedSpan;
      }),
  );
}

/** Converts `[{key, value: {stringValue}}]` to a record. */
function valuesOf(pairs: KeyValues): Record<string, unknown> {
  return Object.fromEntries(pairs.map(({ key, value }) => [key, plain(value)]));
}

function plain(value: Json): unknown {
  const list = value.arrayValue as { values: Json[] } | undefined;
  return list === undefined ? Object.values(value)[0] : list.values.map(plain);
}
