import { isLosslessNumber, parse, stringify } from 'lossless-json';
import { asError } from '../../common/as-error.js';
import type { ImportErrorList } from './import-errors.js';
import { isOrderField, ORDER_FIELDS, type OrderText, UNKNOWN_FIELD } from './order-fields.js';

/** Far longer than any order. Bounds the memory that a file without line breaks takes. */
const LINE_CHARACTERS_MAX = 65_536;

/** Reads one JSON object per line, in batches as they arrive. Blank lines are skipped. */
export async function* readNdjson(source: AsyncIterable<Buffer>, errors: ImportErrorList): AsyncGenerator<OrderText[]> {
  let line = 0;
  for await (const texts of linesOf(source)) {
    const orders: OrderText[] = [];
    for (const text of texts) {
      line++;
      const object = text.trim() === '' ? undefined : objectIn(text, line, errors);
      if (object !== undefined) {
        orders.push({ line, fields: textsOf(object, line, errors) });
      }
    }
    yield orders;
  }
}

/** The last line is the first one that is too long. */
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

function objectIn(text: string, line: number, errors: ImportErrorList): object | undefined {
  if (text.length > LINE_CHARACTERS_MAX) {
    errors.add({ line, problem: `must have at most ${LINE_CHARACTERS_MAX} characters` });
    return undefined;
  }
  try {
    // Keeps the text of each number: 9007199254740993.0 must not be rounded to a valid id.
    const value = parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value) && !isLosslessNumber(value)) {
      return value;
    }
    errors.add({ line, problem: `must be a JSON object (got ${text.trim()})` });
  } catch (error) {
    errors.add({ line, problem: `is not valid JSON: ${asError(error).message}` });
  }
  return undefined;
}

/** The text of each field; null means no value. */
function textsOf(object: object, line: number, errors: ImportErrorList): OrderText['fields'] {
  const texts: Record<string, string> = {};
  for (const [field, value] of Object.entries(object) as [string, unknown][]) {
    if (!isOrderField(field)) {
      errors.add({ line, field, problem: UNKNOWN_FIELD });
    } else if (value !== null) {
      texts[field] = textOf(value, ORDER_FIELDS[field].isString === true);
    }
  }
  return texts;
}

/** The JSON text of another type is no valid value: a string has its quotes, a number is neither a time nor a status. */
function textOf(value: unknown, isString: boolean): string {
  const isPlain = isLosslessNumber(value) || (isString && typeof value === 'string');
  return isPlain ? String(value) : (stringify(value) ?? '');
}
