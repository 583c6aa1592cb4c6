import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv, type ValidateFunction } from 'ajv';
import { parse } from 'lossless-json';

/** An answer of the service, as far as the document speaks about answers. */
export interface ReceivedResponse {
  readonly status: number;
  /** @returns the value as it was sent, undefined when the header is missing, null when it was sent twice */
  readonly header: (name: string) => string | null | undefined;
  /** Text, decompressed; undefined when it is not known or there can be none, as after HEAD. */
  readonly body: string | undefined;
}

/** What was asked for, where that is known; otherwise the answer may be that of any operation. */
export interface RequestLine {
  readonly method: string;
  /** Of the request target. */
  readonly path: string;
}

interface Response {
  readonly headers?: Record<string, { $ref: string }>;
  readonly content?: Record<string, { examples?: Record<string, unknown> }>;
}
type Operation = Readonly<{ responses: Record<string, Response> }>;
interface Header {
  readonly required?: boolean;
  readonly schema: { readonly type?: string; readonly int64?: true };
}
export interface OpenApiDocument {
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { readonly headers: Record<string, Header>; readonly schemas: Record<string, object> };
}

const LIST_SCHEMA = '#/paths/~1store~1orders/get/responses/200/content/application~1json/schema';
const ERROR_SCHEMA = '#/components/schemas/Error';
const INT64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n };

export function committedDocument(): OpenApiDocument {
  return JSON.parse(readFileSync(join(__dirname, '..', '..', 'openapi.json'), 'utf8')) as OpenApiDocument;
}

/** Checks answers against an OpenAPI document: status, headers and body, int64 without rounding. */
export class Contract {
  readonly #ajv = new Ajv({
    strict: false,
    formats: {
      int32: true,
      // RFC 3339 as this interface narrows it: UTC with milliseconds.
      'date-time': /^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d\.\d{3}Z$/,
    },
  });
  readonly #document: OpenApiDocument;
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(document: OpenApiDocument) {
    this.#document = forValidation(document);
    this.#ajv.addKeyword({ keyword: 'int64', validate: (_: unknown, value: unknown) => isInt64(value) });
    this.#ajv.addSchema(this.#document, 'openapi');
  }

  /** @returns what is wrong with an answer; empty when it is as documented */
  violationsOf(answer: ReceivedResponse, asked?: RequestLine): string[] {
    const operation = asked === undefined ? undefined : this.#operationOf(asked);
    const candidates = this.#candidates(answer.status, operation);
    if (candidates.length === 0) {
      return [`status ${answer.status} is not documented`];
    }
    const faults = candidates.map((response) => this.#violationsAgainst(response, answer));
    return faults.some((found) => found.length === 0) ? [] : (faults[0] ?? []);
  }

  /** Where it is not known what was asked, or nothing that exists was, an answer of either operation or `default` will do. */
  #candidates(status: number, operation: Operation | undefined): Response[] {
    if (operation !== undefined) {
      return [operation.responses[status]].filter((response) => response !== undefined);
    }
    const operations = Object.values(this.#document.paths).flatMap((path) => Object.values(path));
    return operations
      .flatMap(({ responses }) => [responses[status], status >= 400 ? responses.default : undefined])
      .filter((response) => response !== undefined);
  }

  #operationOf({ method, path }: RequestLine): Operation | undefined {
    const name = method === 'HEAD' ? 'get' : method.toLowerCase();
    for (const [template, operations] of Object.entries(this.#document.paths)) {
      if (new RegExp(`^/v1${template.replace(/\{\w+\}/g, '[^/]+')}$`).test(path.split('?')[0] ?? '')) {
        return operations[name];
      }
    }
    return undefined;
  }

  #violationsAgainst(response: Response, answer: ReceivedResponse): string[] {
    const headers = Object.entries(response.headers ?? {}).flatMap(([name, { $ref }]) =>
      this.#headerViolations(name, $ref, answer.header(name)),
    );
    return [...headers, ...this.#bodyViolations(response, answer)];
  }

  #headerViolations(name: string, ref: string, value: string | null | undefined): string[] {
    const header = this.#document.components.headers[ref.split('/').at(-1) ?? ''];
    if (header === undefined) {
      return [`header ${name} refers to nothing`];
    }
    if (value === undefined || value === null) {
      return value === undefined && header.required !== true ? [] : [`header ${name} is not there exactly once`];
    }
    const { type, int64 } = header.schema;
    const typed = /^-?\d+$/.test(value) && (type === 'integer' || int64) ? Number(value) : value;
    return this.#schemaViolations(`${ref}/schema`, typed).map((fault) => `header ${name}: ${value} ${fault}`);
  }

  #bodyViolations({ content }: Response, { header, body, status }: ReceivedResponse): string[] {
    if (content === undefined) {
      return body === undefined || body === ''
        ? []
        : [`there is a body, and none is documented: ${body.slice(0, 200)}`];
    }
    const type = header('Content-Type') ?? '';
    const media = content[type];
    if (media === undefined) {
      return [`Content-Type ${type} is not documented`];
    }
    if (body === undefined) {
      return [];
    }
    const value = parse(body, undefined, exactNumber);
    const faults = this.#schemaViolations(status < 300 ? LIST_SCHEMA : ERROR_SCHEMA, value).map(
      (fault) => `body ${fault}`,
    );
    return faults.length > 0 || status < 300 ? faults : errorBodyViolations(value, status, media.examples ?? {});
  }

  #schemaViolations(pointer: string, value: unknown): string[] {
    let validate = this.#validators.get(pointer);
    if (validate === undefined) {
      validate = this.#ajv.compile({ $ref: `openapi${pointer}` });
      this.#validators.set(pointer, validate);
    }
    return validate(value) ? [] : [this.#ajv.errorsText(validate.errors)];
  }
}

/** Every code that is answered is one of those that the document shows an example of, and says its own status. */
function errorBodyViolations(value: unknown, status: number, examples: Record<string, unknown>): string[] {
  const { code, status: stated } = value as { code: string; status: number };
  return [
    ...(code in examples ? [] : [`code ${code} has no example under status ${status}`]),
    ...(stated === status ? [] : [`the body says ${stated}, the status line ${status}`]),
  ];
}

/**
 * The document as a stricter JSON schema: int64 by a keyword of our own, since JavaScript's numbers do not hold it, and no
 * field but those that are named.
 */
function forValidation(document: OpenApiDocument): OpenApiDocument {
  return JSON.parse(JSON.stringify(document), (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null) {
      return value;
    }
    const { type, format, ...rest } = value as { type?: string; format?: string };
    if (type === 'integer' && format === 'int64') {
      return { ...rest, int64: true };
    }
    return type === 'object' ? { ...value, additionalProperties: false } : value;
  }) as OpenApiDocument;
}

function isInt64(value: unknown): boolean {
  const exact = typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value;
  return typeof exact === 'bigint' && exact >= INT64.min && exact <= INT64.max;
}

/** Whole numbers alone, with all their digits: nothing in this interface is written as 1.0 or 1e3. */
function exactNumber(text: string): number | bigint {
  if (!/^-?(?:0|[1-9]\d*)$/.test(text)) {
    return Number.NaN;
  }
  return Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text);
}

const contract = new Contract(committedDocument());

/** An answer that is not one of those which `openapi.json` describes. */
export class UndocumentedResponse extends Error {}

/**
 * Fails the test that got an answer which `openapi.json` does not describe. Answers outside the version segment are not
 * part of the interface.
 */
export function expectDocumented(answer: ReceivedResponse, asked?: RequestLine): void {
  const faults = contract.violationsOf(answer, asked);
  if (faults.length > 0) {
    const what = asked === undefined ? 'An answer' : `The answer to ${asked.method} ${asked.path}`;
    throw new UndocumentedResponse(`${what} (${answer.status}) is not as documented: ${faults.join('; ')}`);
  }
}
