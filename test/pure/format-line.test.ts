import { stripVTControlCharacters } from 'node:util';
import { formatLine } from '../../src/logging/format-line.js';

const format = (line: object): string => stripVTControlCharacters(formatLine(JSON.stringify(line)));
const TIME = { time: '2026-11-26T12:00:00.000Z' };

describe('a line on a terminal', () => {
  it.each([
    [{ level: 30, host: '::1', msg: 'listening' }, 'INFO: listening {"host":"::1"}'],
    [{ level: 40, context: 'Database', msg: 'lost it' }, 'WARN: [Database] lost it'],
    [{ level: 50, context: 'Errors', detail: 'Error: x\n    at y', msg: 'a' }, 'ERROR: [Errors] a\nError: x\n    at y'],
  ])('shows level, context, text, stack and fields of a message: %j', (line, expected) => {
    expect(format({ ...line, ...TIME })).toMatch(/^\[\d\d:\d\d:\d\d\.000\] /);
    expect(format({ ...line, ...TIME })).toContain(` ${expected}\n`);
  });

  it('shows a request in the same form', () => {
    const request = { level: 30, ...TIME, method: 'GET', route: '/docs', status: 200, durationMs: 1.5 };
    expect(format(request)).toContain(
      'INFO: GET /docs 200 {"method":"GET","route":"/docs","status":200,"durationMs":1.5}\n',
    );
    expect(format({ ...request, status: undefined, aborted: true })).toContain('INFO: GET /docs aborted {');
    expect(format({ ...request, route: 'unmatched', path: '/nothing' })).toContain('INFO: GET /nothing 200 {');
  });
});
