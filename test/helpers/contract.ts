import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv, type ValidateFunction } from 'ajv';
import { parse } from 'lossless-json';

/** The parts of a response that the document describes. */
export interface ReceivedResponse {
  readonly status: number;
  /** @returns the value as sent, undefined when the header is missing, null when it was sent more than once */
  readonly header: (name: string) => string | null | undefined;
  /** Decompressed text; undefined when it has not been read or there is none, as for HEAD. */
  readonly body: string | undefined;
}

export interface RequestLine {
  readonly method: string;
  /** Path of the request target, with the version segment. */
  readonly path: string;
}

interface DocumentedResponse {
  readonly headers?: Record<string, { $ref: string }>;
  readonly content?: Record<string, { examples?: Record<string, unknown> }>;
}
type Operation = Readonly<{ responses: Record<string, DocumentedResponse> }>;
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

/** Checks responses against an OpenAPI document: status, headers and body, with exact int64 values. */
export class Contract {
  readonly #ajv = new Ajv({
    strict: false,
    formats: {
      int32: true,
      // The subset of RFC 3339 that the interface uses: UTC with milliseconds.
      'date-time': /^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d\.\d{3}Z$/,
    },
  });
  readonly #document: OpenApiDocument;
  readonly #operations: [RegExp, Record<string, Operation>][];
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(document: OpenApiDocument) {
    this.#document = forValidation(document);
    this.#operations = Object.entries(this.#document.paths).map(([template, operations]) => [
      new RegExp(`^/v1${template.replace(/\{\w+\}/g, '[^/]+')}$`),
      operations,
    ]);
    this.#ajv.addKeyword({ keyword: 'int64', validate: (_: unknown, value: unknown) => isInt64(value) });
    this.#ajv.addSchema(this.#document, 'openapi');
  }

  /** @returns the differences between a response and the document; empty when it conforms */
  violationsOf(received: ReceivedResponse, request?: RequestLine): string[] {
    const operation = request === undefined ? undefined : this.#operationOf(request);
    const candidates = this.#candidates(received.status, operation);
    if (candidates.length === 0) {
      return [`status ${received.status} is not documented`];
    }
    const violations = candidates.map((documented) => this.#violationsAgainst(documented, received));
    return violations.some((found) => found.length === 0) ? [] : (violations[0] ?? []);
  }

  /** Without a known operation, a response of either operation or an operation's `default` conforms. */
  #candidates(status: number, operation: Operation | undefined): DocumentedResponse[] {
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
    const found = this.#operations.find(([pattern]) => pattern.test(path.split('?')[0] ?? ''));
    return found?.[1][name];
  }

  #violationsAgainst(documented: DocumentedResponse, received: ReceivedResponse): string[] {
    const headers = Object.entries(documented.headers ?? {}).flatMap(([name, { $ref }]) =>
      this.#headerViolations(name, $ref, received.header(name)),
    );
    return [...headers, ...this.#bodyViolations(documented, received)];
  }

  #headerViolations(name: string, ref: string, value: string | null | undefined): string[] {
    const header = this.#document.components.headers[ref.split('/').at(-1) ?? ''];
    if (header === undefined) {
      return [`header ${name} refers to a missing component`];
    }
    if (value === undefined || value === null) {
      return value === undefined && header.required !== true ? [] : [`header ${name} is not present exactly once`];
    }
    const { type, int64 } = header.schema;
    const typed = /^-?\d+$/.test(value) && (type === 'integer' || int64) ? Number(value) : value;
    return this.#schemaViolations(`${ref}/schema`, typed).map((violation) => `header ${name}: ${value} ${violation}`);
  }

  #bodyViolations({ content }: DocumentedResponse, { header, body, status }: ReceivedResponse): string[] {
    if (content === undefined) {
      return body === undefined || body === ''
        ? []
        : [`no body is documented, but the response has one: ${body.slice(0, 200)}`];
    }
    const type = header('Content-Type') ?? '';
    const media = content[type];
    if (media === undefined) {
      return [`Content-Type ${type} is not documented`];
    }
    if (body === undefined) {
      return [];
    }
    const value = parseExactly(body);
    const violations = this.#schemaViolations(status < 300 ? LIST_SCHEMA : ERROR_SCHEMA, value).map(
      (violation) => `body ${violation}`,
    );
    return violations.length > 0 || status < 300
      ? violations
      : errorBodyViolations(value, status, media.examples ?? {});
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

/** Checks that the document has an example of the code under this status, and that the body repeats the status. */
function errorBodyViolations(value: unknown, status: number, examples: Record<string, unknown>): string[] {
  const { code, status: stated } = value as { code: string; status: number };
  return [
    ...(code in examples ? [] : [`code ${code} has no example under status ${status}`]),
    ...(stated === status ? [] : [`the body states status ${stated}, the status line ${status}`]),
  ];
}

/**
 * Turns the document into a stricter JSON schema: a custom keyword checks int64, which a JavaScript number cannot hold, and
 * fields that are not named are rejected.
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

/** A number that `JSON.parse` would round, or accept although the interface never writes it. */
const INEXACT_NUMBER = /":\s*-?(?:\d{16}|\d+[.eE])/;

/** Parses with `JSON.parse`, which is many times faster than the exact parser, where both give the same. */
function parseExactly(text: string): unknown {
  if (!INEXACT_NUMBER.test(text)) {
    const value: unknown = JSON.parse(text);
    const properties = [value]
      .flat()
      .reduce<number>((sum, each) => sum + Object.keys(Object(each) as object).length, 0);
    // There are more when a property is duplicate, which the exact parser rejects, or nested.
    if (text.match(/":/g)?.length === properties) {
      return value;
    }
  }
  return parse(text, undefined, exactNumber);
}

/** Parses integers exactly. The interface never writes a number as 1.0 or 1e3, so those become NaN. */
function exactNumber(text: string): number | bigint {
  if (!/^-?(?:0|[1-9]\d*)$/.test(text)) {
    return Number.NaN;
  }
  return Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text);
}

const contract = new Contract(committedDocument());

/** Thrown for a response that `openapi.json` does not describe. */
export class UndocumentedResponse extends Error {}

/** Fails the test when `openapi.json` does not describe a response to a path under the version segment. */
export function expectDocumented(received: ReceivedResponse, request?: RequestLine): void {
  const violations = contract.violationsOf(received, request);
  if (violations.length > 0) {
    const what = request === undefined ? 'A response' : `The response to ${request.method} ${request.path}`;
    throw new UndocumentedResponse(`${what} (${received.status}) violates openapi.json: ${violations.join('; ')}`);
  }
}
