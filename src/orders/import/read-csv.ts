import { pipeline } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import type { ImportErrors } from './import-errors.js';
import { isOrderField, type OrderField, type OrderTexts, UNKNOWN_FIELD } from './order-fields.js';

/** Far longer than any order. Bounds the memory that an unclosed quote takes. */
const RECORD_BYTES_MAX = 65_536;

/** Reads CSV (RFC 4180) with a header line as it arrives. Yields each order with its line. */
export async function* readCsv(
  source: AsyncIterable<Buffer>,
  errors: ImportErrors,
): AsyncGenerator<[line: number, order: OrderTexts]> {
  const parser = parse({ bom: true, trim: true, relax_column_count: true, max_record_size: RECORD_BYTES_MAX });
  let header: OrderField[] | undefined;
  let nextLine = 1;
  try {
    // An error of the source ends the parser, and the loop throws it.
    for await (const values of pipeline(source, parser, () => undefined) as AsyncIterable<string[]>) {
      const line = nextLine;
      nextLine += linesOf(values);
      if (header === undefined) {
        header = readHeader(values, errors);
      } else if (values.length === header.length) {
        yield [line, Object.fromEntries(header.map((field, index) => [field, values[index]]))];
      } else if (values.length > 1 || values[0] !== '') {
        errors.add(line, `must have ${header.length} values, like the header (got ${values.length})`);
      }
    }
  } catch (error) {
    if (!(error instanceof CsvError)) {
      throw error;
    }
    const problem = `is not valid CSV, or follows an unclosed quote, perhaps many lines earlier: ${error.message}`;
    errors.add(Number(error.lines), problem);
  }
}

/** @throws {Error} when the header is invalid: the values cannot be checked without it */
function readHeader(names: readonly string[], errors: ImportErrors): OrderField[] {
  for (const [index, name] of names.entries()) {
    if (!isOrderField(name)) {
      errors.add(1, UNKNOWN_FIELD, name === '' ? 'a column without a name' : name);
    } else if (names.indexOf(name) < index) {
      errors.add(1, 'occurs twice in the header', name);
    }
  }
  errors.throwIfAny();
  return names.filter(isOrderField);
}

/** Lines of the file: quoted values may have line breaks. */
function linesOf(values: readonly string[]): number {
  return values.some((value) => value.includes('\n')) ? values.join().split('\n').length : 1;
}
