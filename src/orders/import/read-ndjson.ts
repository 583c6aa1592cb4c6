import { isLosslessNumber, parse } from 'lossless-json';
import { asError } from '../../common/as-error.js';
import type { ImportErrorList } from './import-errors.js';
import { isOrderField, ORDER_FIELDS, type OrderText, UNKNOWN_FIELD, WrongType } from './order-fields.js';

/** Far longer than any order. Bounds the memory that a file without line breaks takes. */
const LINE_CHARACTERS_MAX = 65_536;

/** Reads one JSON object per line, in batches as they arrive. Blank lines are skipped. */
export async function* readNdjson(source: AsyncIterable<Buffer>, errors: ImportErrorList): AsyncGenerator<OrderText[]> {
  let lineNumber = 0;
  for await (const lines of linesOf(source)) {
    const orders: OrderText[] = [];
    for (const line of lines) {
      lineNumber++;
      const order = readLine(line, lineNumber, errors);
      if (order !== undefined) {
        orders.push(order);
      }
    }
    yield orders;
  }
}

async function* linesOf(source: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  // Drops a byte order mark.
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of source) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield lines;
    if (rest.length > LINE_CHARACTERS_MAX) {
      break;
    }
  }
  yield [rest + decoder.decode()];
}

function readLine(text: string, line: number, errors: ImportErrorList): OrderText | undefined {
  if (text.length > LINE_CHARACTERS_MAX) {
    errors.add({ line, problem: `must have at most ${LINE_CHARACTERS_MAX} characters` });
    return undefined;
  }
  if (text.trim() === '') {
    return undefined;
  }
  let value: unknown;
  try {
    // Keeps the text of each number: 9007199254740993.0 must not be rounded to a valid id.
    value = parse(text);
  } catch (error) {
    errors.add({ line, problem: `is not valid JSON: ${asError(error).message}` });
    return undefined;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value) || isLosslessNumber(value)) {
    errors.add({ line, problem: `must be a JSON object (got ${describe(value)})` });
    return undefined;
  }
  return { line, fields: textsOf(value, line, errors) };
}

/** The text of each field; null means no value. */
function textsOf(object: object, line: number, errors: ImportErrorList): OrderText['fields'] {
  const texts: Record<string, string | WrongType> = {};
  for (const [field, value] of Object.entries(object) as [string, unknown][]) {
    if (!isOrderField(field)) {
      errors.add({ line, field, problem: UNKNOWN_FIELD });
    } else if (value !== null) {
      texts[field] = textOf(value, ORDER_FIELDS[field].jsonType);
    }
  }
  return texts;
}

function textOf(value: unknown, jsonType: 'number' | 'string' | 'boolean'): string | WrongType {
  return typeOf(value) === jsonType ? String(value) : new WrongType(describe(value));
}

function typeOf(value: unknown): string {
  return isLosslessNumber(value) ? 'number' : typeof value;
}

function describe(value: unknown): string {
  if (Array.isArray(value)) {
    return 'an array';
  }
  switch (typeOf(value)) {
    case 'string':
      return `the string "${String(value)}"`;
    case 'object':
      return value === null ? 'null' : 'an object';
    default:
      return `the ${typeOf(value)} ${String(value)}`;
  }
}
