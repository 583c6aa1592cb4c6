import { pipeline } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import type { ImportErrors } from './import-errors.js';
import { ORDER_FIELDS, type OrderField, REQUIRED_FIELDS } from './order-row.js';

/** Far longer than any order. Bounds the memory that an unclosed quote takes. */
const RECORD_BYTES_MAX = 65_536;

/** What programs write between the columns in place of commas. */
const OTHER_DELIMITERS: Readonly<Record<string, string>> = { ';': 'semicolons', '\t': 'tabs', '|': 'vertical bars' };

/** The values of a row by field, and its line of the file, counted from 1. */
export type OrderValues = [line: number, values: Readonly<Partial<Record<OrderField, string>>>];

/**
 * Reads CSV (RFC 4180) with a header line as it arrives; each line may have a line end of its own kind. Skips rows without a value.
 * @param isComplete accepts a last row without a line end, which is otherwise an error: it may have been cut off
 */
export async function* readCsv(
  source: AsyncIterable<Buffer>,
  errors: ImportErrors,
  isComplete: boolean,
): AsyncGenerator<OrderValues> {
  let lastByte: number | undefined;
  let nextLine = 1;
  let lastRow: number | undefined;
  async function* bytes(): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      // UTF-16 has zeros in between.
      lastByte = chunk.findLast((byte) => byte !== 0) ?? lastByte;
      yield chunk;
    }
  }
  const parser = parse({
    bom: true,
    trim: true,
    relax_column_count: true,
    record_delimiter: ['\r\n', '\n', '\r'],
    max_record_size: RECORD_BYTES_MAX,
    on_record: (values: string[]) => {
      const line = nextLine;
      // Quoted values may have line ends. The count of csv-parse takes a CRLF in them for two.
      nextLine += values.reduce((lines, value) => lines + (value.match(/\r\n|\n|\r/g)?.length ?? 0), 1);
      const isBlank = values.every((value) => value.trim() === '');
      lastRow = isBlank ? undefined : line;
      return isBlank ? null : [String(line), ...values];
    },
  });
  let header: OrderField[] | undefined;
  try {
    // An error of the source ends the parser, and the loop throws it.
    for await (const [line, ...values] of pipeline(bytes(), parser, () => undefined) as AsyncIterable<string[]>) {
      if (header === undefined) {
        header = readHeader(Number(line), values, errors);
      } else if (values.length === header.length) {
        yield [Number(line), Object.fromEntries(header.map((field, index) => [field, values[index]]))];
      } else {
        errors.add(Number(line), `must have ${header.length} values, like the header (got ${values.length})`);
      }
    }
  } catch (error) {
    if (!(error instanceof CsvError)) {
      throw error;
    }
    const problem = error.message.replace(/ at line \d+/, '');
    errors.add(nextLine, `is not valid CSV; perhaps a quote that opens in it is not closed (${problem})`);
    return;
  }
  if (lastRow !== undefined && lastByte !== 0x0a && lastByte !== 0x0d && !isComplete) {
    errors.add(lastRow, 'has no line end and may have been cut off; if the file is complete, pass --complete');
  }
}

/** @throws {Error} when the header is invalid: the values cannot be checked without it */
function readHeader(line: number, names: readonly string[], errors: ImportErrors): OrderField[] {
  const [, other] =
    Object.entries(OTHER_DELIMITERS).find(([delimiter]) => names.length === 1 && names[0]?.includes(delimiter)) ?? [];
  if (other !== undefined) {
    errors.add(line, `must separate the columns with commas, not with ${other}`);
    errors.throwIfAny();
  }
  for (const [index, name] of names.entries()) {
    if (!isOrderField(name)) {
      const problem = `is not a field of an order; the fields are ${ORDER_FIELDS.join(', ')}`;
      errors.add(line, problem, name === '' ? 'a column without a name' : name);
    } else if (names.indexOf(name) < index) {
      errors.add(line, 'occurs twice in the header', name);
    }
  }
  for (const field of REQUIRED_FIELDS.filter((field) => !names.includes(field))) {
    errors.add(line, 'is missing from the header', field);
  }
  errors.throwIfAny();
  return names.filter(isOrderField);
}

function isOrderField(name: string): name is OrderField {
  return ORDER_FIELDS.some((field) => field === name);
}
