import { parse, parseNumberAndBigInt } from 'lossless-json';
import { asError } from '../../common/as-error.js';
import type { ImportErrorList } from './import-errors.js';
import { isOrderField, ORDER_FIELDS, type OrderText, UNKNOWN_FIELD } from './order-fields.js';

/** Far longer than any order; a file without line breaks must not fill the memory. */
const LINE_CHARACTERS_MAX = 65_536;

/** Reads one JSON object a line, in batches as they arrive. Blank lines do not count as orders. */
export async function* readNdjson(source: AsyncIterable<Buffer>, faults: ImportErrorList): AsyncGenerator<OrderText[]> {
  let lineNumber = 0;
  for await (const lines of linesOf(source)) {
    const orders: OrderText[] = [];
    for (const line of lines) {
      lineNumber++;
      const order = readLine(line, lineNumber, faults);
      if (order !== undefined) {
        orders.push(order);
      }
    }
    yield orders;
  }
}

async function* linesOf(source: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  // It drops a byte order mark.
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

function readLine(text: string, line: number, faults: ImportErrorList): OrderText | undefined {
  if (text.length > LINE_CHARACTERS_MAX) {
    faults.add({ line, problem: `is longer than ${LINE_CHARACTERS_MAX} characters` });
    return undefined;
  }
  if (text.trim() === '') {
    return undefined;
  }
  let value: unknown;
  try {
    // Integers become exact BigInts, whatever their size.
    value = parse(text, null, parseNumberAndBigInt);
  } catch (error) {
    faults.add({ line, problem: `is not JSON: ${asError(error).message}` });
    return undefined;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    faults.add({ line, problem: `must be an object, not ${describe(value)}` });
    return undefined;
  }
  return { line, fields: textsOf(value, line, faults) };
}

/** The text of each field; null is no value. */
function textsOf(object: object, line: number, faults: ImportErrorList): OrderText['fields'] {
  const texts: Record<string, string> = {};
  for (const [field, value] of Object.entries(object) as [string, unknown][]) {
    if (!isOrderField(field)) {
      faults.add({ line, field, problem: UNKNOWN_FIELD });
    } else if (value !== null) {
      texts[field] = textOf(value, ORDER_FIELDS[field].jsonType);
    }
  }
  return texts;
}

/** The text that the rules of the field judge; of a wrong type, a description that no rule lets through. */
function textOf(value: unknown, jsonType: 'number' | 'string' | 'boolean'): string {
  const type = typeof value === 'bigint' ? 'number' : typeof value;
  return type === jsonType ? String(value) : describe(value);
}

function describe(value: unknown): string {
  if (Array.isArray(value)) {
    return 'an array';
  }
  switch (typeof value) {
    case 'string':
      return `the string "${value}"`;
    case 'object':
      return value === null ? 'null' : 'an object';
    default:
      return `the ${typeof value === 'bigint' ? 'number' : typeof value} ${String(value)}`;
  }
}
