import { pipeline } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import type { ImportErrorList } from './import-errors.js';
import { isOrderField, ORDER_FIELDS, type OrderField, type OrderText, UNKNOWN_FIELD } from './order-fields.js';

const BATCH = 500;
/** Far longer than any order; a quote that is never closed must not fill the memory. */
const RECORD_BYTES_MAX = 65_536;

/** Reads RFC 4180 with a header line that names the fields, in batches as they arrive. An empty field has no value. */
export async function* readCsv(source: AsyncIterable<Buffer>, faults: ImportErrorList): AsyncGenerator<OrderText[]> {
  const parser = parse({ bom: true, trim: true, relax_column_count: true, max_record_size: RECORD_BYTES_MAX });
  let header: OrderField[] | undefined;
  let orders: OrderText[] = [];
  let nextLine = 1;
  try {
    // A source that fails ends the parser with its error, which the loop then throws.
    for await (const record of pipeline(source, parser, () => undefined) as AsyncIterable<string[]>) {
      const line = nextLine;
      nextLine += 1 + lineBreaksIn(record);
      if (header === undefined) {
        header = readHeader(record, faults);
      } else if (record.length === header.length) {
        orders.push({ line, fields: fieldsOf(header, record) });
      } else if (record.length > 1 || record[0] !== '') {
        faults.add({ line, problem: `has ${record.length} values, but the header names ${header.length} fields` });
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
    faults.add({ line: Number(error.lines), problem: `is not CSV: ${error.message}` });
    faults.refuseIfAny();
  }
  if (header === undefined) {
    faults.add({ line: 1, problem: 'must be a header that names the fields' });
  }
  yield orders;
}

/** @throws {ImportRejected} when the columns are not known, since nothing can be said of their values then */
function readHeader(names: readonly string[], faults: ImportErrorList): OrderField[] {
  const header: OrderField[] = [];
  for (const name of names) {
    if (!isOrderField(name)) {
      faults.add({ line: 1, field: name, problem: UNKNOWN_FIELD });
    } else if (header.includes(name)) {
      faults.add({ line: 1, field: name, problem: 'is named twice' });
    } else {
      header.push(name);
    }
  }
  for (const [name, { required }] of Object.entries(ORDER_FIELDS)) {
    if (required && !names.includes(name)) {
      faults.add({ line: 1, field: name, problem: 'is missing from the header' });
    }
  }
  faults.refuseIfAny();
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

/** Line breaks inside quotes, so that the lines after them are named rightly. */
function lineBreaksIn(values: readonly string[]): number {
  let count = 0;
  for (const value of values) {
    if (value.includes('\n')) {
      count += value.split('\n').length - 1;
    }
  }
  return count;
}
