import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

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

  private constructor(private readonly server: Server) {}

  static async start(): Promise<OtlpReceiver> {
    const server = createServer((req, res) => {
      let body = '';
      req.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
      req.on('end', () => {
        const contentType = req.headers['content-type'];
        receiver.contentTypes.add(contentType);
        receiver.text += body;
        if (req.url === '/v1/traces' && contentType === 'application/json') {
          receiver.#receive(body);
          res.end('{}');
        } else if (req.url === '/v1/traces' && contentType === 'application/x-protobuf') {
          res.end();
        } else {
          res.writeHead(404).end();
        }
      });
    });
    const receiver = new OtlpReceiver(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  #receive(body: string): void {
    for (const { resource, scopeSpans } of (JSON.parse(body) as Export).resourceSpans) {
      for (const span of scopeSpans.flatMap(({ spans }) => spans)) {
        const attributes = valuesOf(span.attributes);
        this.spans.push({ ...span, attributes, resource: valuesOf(resource.attributes) } as unknown as ReceivedSpan);
      }
    }
  }
}

/** Converts `[{key, value: {stringValue}}]` to a record. */
function valuesOf(pairs: KeyValues): Record<string, unknown> {
  return Object.fromEntries(pairs.map(({ key, value }) => [key, plain(value)]));
}

function plain(value: Json): unknown {
  const list = value.arrayValue as { values: Json[] } | undefined;
  return list === undefined ? Object.values(value)[0] : list.values.map(plain);
}
