import { pipeline } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import type { ImportErrorList } from './import-errors.js';
import { isOrderField, ORDER_FIELDS, type OrderField, type OrderText, UNKNOWN_FIELD } from './order-fields.js';

const BATCH = 500;
/** Far longer than any order. Bounds the memory that an unclosed quote takes. */
const RECORD_BYTES_MAX = 65_536;

/** Reads CSV (RFC 4180) with a header line in batches as they arrive. An empty field has no value. */
export async function* readCsv(source: AsyncIterable<Buffer>, errors: ImportErrorList): AsyncGenerator<OrderText[]> {
  const parser = parse({ bom: true, trim: true, relax_column_count: true, max_record_size: RECORD_BYTES_MAX });
  let header: OrderField[] | undefined;
  let orders: OrderText[] = [];
  let nextLine = 1;
  try {
    // An error of the source ends the parser, and the loop throws it.
    for await (const record of pipeline(source, parser, () => undefined) as AsyncIterable<string[]>) {
      const line = nextLine;
      nextLine += 1 + lineBreaksIn(record);
      if (header === undefined) {
        header = readHeader(record, errors);
      } else if (record.length === header.length) {
        orders.push({ line, fields: fieldsOf(header, record) });
      } else if (record.length > 1 || record[0] !== '') {
        errors.add({ line, problem: `must have ${header.length} values, as the header (got ${record.length})` });
      }
      if (orders.length === BATCH) {
        yield orders;
        orders = [];
      }
    }
  } catch (error) {
    if (!(error instanceof CsvError)) {
      throw error;
    }
    errors.add({ line: Number(error.lines), problem: `is not valid CSV: ${error.message}` });
    errors.throwIfAny();
  }
  if (header === undefined) {
    errors.add({ line: 1, problem: 'must be a header with the names of the fields' });
  }
  yield orders;
}

/** @throws {ImportRejected} when the header is invalid: the values cannot be checked without it */
function readHeader(names: readonly string[], errors: ImportErrorList): OrderField[] {
  const header: OrderField[] = [];
  for (const name of names) {
    if (!isOrderField(name)) {
      errors.add({ line: 1, field: name, problem: UNKNOWN_FIELD });
    } else if (header.includes(name)) {
      errors.add({ line: 1, field: name, problem: 'occurs twice in the header' });
    } else {
      header.push(name);
    }
  }
  for (const [name, { required }] of Object.entries(ORDER_FIELDS)) {
    if (required && !names.includes(name)) {
      errors.add({ line: 1, field: name, problem: 'is missing from the header' });
    }
  }
  errors.throwIfAny();
  return header;
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

/** Line breaks inside quotes, which count as lines of the file. */
function lineBreaksIn(values: readonly string[]): number {
  let count = 0;
  for (const value of values) {
    if (value.includes('\n')) {
      count += value.split('\n').length - 1;
    }
  }
  return count;
}
