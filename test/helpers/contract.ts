import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
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
interface OpenApiDocument {
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { readonly headers: Record<string, Header> };
}

const LIST_SCHEMA = '#/paths/~1store~1orders/get/responses/200/content/application~1json/schema';
const ERROR_SCHEMA = '#/components/schemas/Error';

export function committedDocument(): OpenApiDocument {
  return JSON.parse(readFileSync(join(__dirname, '..', '..', 'openapi.json'), 'utf8')) as OpenApiDocument;
}

const document = forValidation(committedDocument());
const ajv = new Ajv({
  strict: false,
  formats: {
    int32: true,
    // The subset of RFC 3339 that the interface uses: UTC with milliseconds.
    'date-time': /^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d\.\d{3}Z$/,
  },
});
ajv.addKeyword({ keyword: 'int64', validate: (_: unknown, value: unknown) => isInt64(value) });
ajv.addSchema(document, 'openapi');

/** Thrown for a response that `openapi.json` does not describe. */
export class UndocumentedResponse extends Error {}

/**
 * Fails the test when `openapi.json` does not describe a response to a path under the version segment: status, headers and body,
 * with exact int64 values.
 */
export function expectDocumented(received: ReceivedResponse, request?: RequestLine): void {
  const { status, header } = received;
  const found = documentedResponses(status, request).map((documented) => [
    ...Object.entries(documented.headers ?? {}).flatMap(([name, { $ref }]) =>
      headerViolations(name, $ref, header(name)),
    ),
    ...bodyViolations(documented, received),
  ]);
  const violations = found.find(({ length }) => length === 0) ?? found[0] ?? [`status ${status} is not documented`];
  if (violations.length > 0) {
    const what = request === undefined ? 'A response' : `The response to ${request.method} ${request.path}`;
    throw new UndocumentedResponse(`${what} (${status}) violates openapi.json: ${violations.join('; ')}`);
  }
}

/** Without a known operation, a response of either operation or an operation's `default` conforms. */
function documentedResponses(status: number, request: RequestLine | undefined): DocumentedResponse[] {
  const operation = request && operationOf(request);
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
  const candidates =
    operation === undefined
      ? operations.flatMap(({ responses }) => [responses[status], status >= 400 ? responses.default : undefined])
      : [operation.responses[status]];
  return candidates.filter((response) => response !== undefined);
}

function operationOf({ method, path }: RequestLine): Operation | undefined {
  const matches = (template: string): boolean =>
    new RegExp(`^/v1${template.replace(/\{\w+\}/g, '[^/]+')}(?:\\?|$)`).test(path);
  const found = Object.entries(document.paths).find(([template]) => matches(template));
  return found?.[1][method === 'HEAD' ? 'get' : method.toLowerCase()];
}

function headerViolations(name: string, ref: string, value: string | null | undefined): string[] {
  const { required, schema } = document.components.headers[ref.split('/').at(-1)!]!;
  if (value === undefined && required !== true) {
    return [];
  }
  if (typeof value !== 'string') {
    return [`header ${name} is not present exactly once`];
  }
  const isInteger = schema.type === 'integer' || schema.int64 === true;
  const typed = isInteger && /^-?\d+$/.test(value) ? Number(value) : value;
  return schemaViolations(`${ref}/schema`, typed).map((violation) => `header ${name}: ${value} ${violation}`);
}

function bodyViolations({ content }: DocumentedResponse, { header, body, status }: ReceivedResponse): string[] {
  if (content === undefined) {
    return body === undefined || body === '' ? [] : [`no body is documented, but this is one: ${body.slice(0, 200)}`];
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
  const violations = schemaViolations(status < 300 ? LIST_SCHEMA : ERROR_SCHEMA, value);
  if (status < 300 || violations.length > 0) {
    return violations.map((violation) => `body ${violation}`);
  }
  const { code, status: stated } = value as { code: string; status: number };
  return [
    ...(code in (media.examples ?? {}) ? [] : [`code ${code} has no example under status ${status}`]),
    ...(stated === status ? [] : [`the body states status ${stated}, the status line ${status}`]),
  ];
}

function schemaViolations(pointer: string, value: unknown): string[] {
  // It is compiled once.
  const validate = ajv.getSchema(`openapi${pointer}`)!;
  return validate(value) === true ? [] : [ajv.errorsText(validate.errors)];
}

/**
 * Turns the document into a stricter JSON schema: a custom keyword checks int64, which a JavaScript number cannot hold, and
 * fields that are not named are rejected.
 */
function forValidation(committed: OpenApiDocument): OpenApiDocument {
  return JSON.parse(JSON.stringify(committed), (_key, value: unknown) => {
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
  return Number.isSafeInteger(value) || (typeof value === 'bigint' && BigInt.asIntN(64, value) === value);
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
