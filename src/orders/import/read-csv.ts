import { pipeline } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import type { ImportErrorList } from './import-errors.js';
import { isOrderField, type OrderField, type OrderText, UNKNOWN_FIELD } from './order-fields.js';

/** Far longer than any order. Bounds the memory that an unclosed quote takes. */
const RECORD_BYTES_MAX = 65_536;

/** By the codes of csv-parse, which names the line at which it gave up. */
const PROBLEMS: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'is behind a quote that is not closed, perhaps many lines before',
  CSV_MAX_RECORD_SIZE: `has more than ${RECORD_BYTES_MAX} bytes, or is behind a quote that is not closed`,
};

/** Reads CSV (RFC 4180) with a header line as it arrives. An empty field has no value. */
export async function* readCsv(source: AsyncIterable<Buffer>, errors: ImportErrorList): AsyncGenerator<OrderText> {
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
        yield { line, fields: fieldsOf(header, values) };
      } else if (values.length > 1 || values[0] !== '') {
        errors.add({ line, problem: `must have ${header.length} values, as the header (got ${values.length})` });
      }
    }
  } catch (error) {
    if (!(error instanceof CsvError)) {
      throw error;
    }
    errors.add({
      line: Number(error.lines),
      problem: PROBLEMS[error.code] ?? `is not valid CSV: ${error.message}`,
    });
    errors.throwIfAny();
  }
  if (header === undefined) {
    errors.add({ line: 1, problem: 'must be a header with the names of the fields' });
  }
}

/** @throws {ImportRejected} when the header is invalid: the values cannot be checked without it */
function readHeader(names: readonly string[], errors: ImportErrorList): OrderField[] {
  for (const [index, name] of names.entries()) {
    if (!isOrderField(name)) {
      errors.add({ line: 1, field: name === '' ? 'a column without a name' : name, problem: UNKNOWN_FIELD });
    } else if (names.indexOf(name) < index) {
      errors.add({ line: 1, field: name, problem: 'occurs twice in the header' });
    }
  }
  errors.throwIfAny();
  return names.filter(isOrderField);
}

function fieldsOf(header: readonly OrderField[], values: readonly string[]): OrderText['fields'] {
  const fields: Partial<Record<OrderField, string>> = {};
  for (const [index, field] of header.entries()) {
    const value = values[index];
    if (value !== undefined && value !== '') {
      fields[field] = value;
    }
  }
  return fields;
}

/** Lines of the file: quoted values may have line breaks. */
function linesOf(values: readonly string[]): number {
  return values.some((value) => value.includes('\n')) ? values.join().split('\n').length : 1;
}
