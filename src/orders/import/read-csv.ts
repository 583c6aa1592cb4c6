import { pipeline } from 'node:stream/promises';
import { CsvError, parse } from 'csv-parse';
import type { LoadProgress } from '../bulk-load.js';
import { copyLineOf, excerpt, ORDER_FIELDS, type OrderRow, problemsOf, REQUIRED_FIELDS } from './order-row.js';

/** Far longer than any order. Bounds the memory that an unclosed quote takes. */
const RECORD_BYTES_MAX = 65_536;
/** Lines that are sent together: a write to the connection for each would take seven times the system time. */
const BATCH_CHARACTERS = 32_768;
/** Reading stops after this many errors. */
export const IMPORT_ERRORS_MAX = 20;

const HEADER = `the fields, separated by commas, are ${ORDER_FIELDS.join(', ')}`;

/** @throws {Error} with the problems of a file, unless there are none */
export function reject(problems: readonly string[]): void {
  if (problems.length > 0) {
    const rest = problems.length < IMPORT_ERRORS_MAX ? [] : ['The rest of the file was not checked.'];
    const lines = problems.slice(0, IMPORT_ERRORS_MAX).map((problem) => `  - ${problem}`);
    throw new Error(['Errors in the file; nothing was imported:', ...lines, ...rest].join('\n'));
  }
}

/**
 * Reads CSV (RFC 4180) with a header line as it arrives, and writes its orders as lines of COPY's text format.
 * @param isComplete accepts a last row without a line end, which is otherwise an error: it may have been cut off
 * @throws {Error} with the invalid lines and fields
 */
export async function copyCsv(
  file: AsyncIterable<Buffer>,
  copy: NodeJS.WritableStream,
  isComplete: boolean,
  progress: LoadProgress,
): Promise<void> {
  const problems: string[] = [];
  let line = 0;
  let lastByte: number | undefined;
  async function* watched(): AsyncGenerator<Buffer> {
    for await (const chunk of file) {
      // UTF-16 has zeros in between.
      lastByte = chunk.findLast((byte) => byte !== 0) ?? lastByte;
      yield chunk;
    }
  }
  const parser = parse({
    bom: true,
    trim: true,
    columns: checkHeader,
    // A row of another length is passed on with its error.
    relax_column_count: true,
    record_delimiter: ['\r\n', '\n', '\r'],
    skip_empty_lines: true,
    skip_records_with_empty_values: true,
    max_record_size: RECORD_BYTES_MAX,
    on_record: (row: OrderRow, { lines, error }) => {
      line = lines;
      progress.orders++;
      const lengthProblem = (error as CsvError | undefined)?.message;
      const found = lengthProblem === undefined ? problemsOf(row) : [lengthProblem];
      problems.push(...found.map((problem) => `line ${line}, ${problem}`));
      if (problems.length >= IMPORT_ERRORS_MAX) {
        reject(problems);
      }
      return found.length > 0 ? null : copyLineOf(line, row);
    },
  });
  await pipeline(watched(), parser, inBatches, copy).catch((error: unknown) => {
    if (!(error instanceof CsvError)) {
      throw error;
    }
    problems.push(`the row after line ${line} is not valid CSV; perhaps a quote is not closed (${error.message})`);
    reject(problems);
  });
  if (!isComplete && lastByte !== undefined && lastByte !== 0x0a && lastByte !== 0x0d) {
    problems.push(
      `line ${parser.info.lines} has no line end and may have been cut off; if the file is complete, pass --complete`,
    );
  }
  reject(problems);
}

async function* inBatches(lines: AsyncIterable<string>): AsyncGenerator<string> {
  let batch = '';
  for await (const line of lines) {
    batch += line;
    if (batch.length >= BATCH_CHARACTERS) {
      yield batch;
      batch = '';
    }
  }
  yield batch;
}

/** @throws {Error} when the header is invalid: the values cannot be checked without it */
function checkHeader(names: string[]): string[] {
  const problems = {
    missing: REQUIRED_FIELDS.filter((field) => !names.includes(field)),
    unknown: names.filter((name) => !ORDER_FIELDS.some((field) => field === name)),
    repeated: names.filter((name, index) => names.indexOf(name) < index),
  };
  reject(
    Object.entries(problems)
      .filter(([, fields]) => fields.length > 0)
      .map(([problem, fields]) => `${problem} in the header: ${fields.map(excerpt).join()}; ${HEADER}`),
  );
  return names;
}
