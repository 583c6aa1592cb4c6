import { stripVTControlCharacters } from 'node:util';
import { Logger } from '@nestjs/common';
import pino from 'pino';
import { formatLine } from '../../src/logging/format-line.js';
import { NestLogger } from '../../src/logging/nest-logger.js';

describe('NestLogger', () => {
  const lines: unknown[] = [];
  const options = { base: null, timestamp: false } as const;
  const loggerOf = (level: pino.LevelWithSilent): NestLogger =>
    new NestLogger(pino({ ...options, level }, { write: (line) => lines.push(JSON.parse(line)) }));

  beforeEach(() => {
    lines.length = 0;
  });

  it('separates context, stack and fields', () => {
    Logger.overrideLogger(loggerOf('info'));
    const logger = new Logger('Here');
    logger.warn('text');
    logger.error('text', 'Error: x\n    at y');
    logger.error('text', { requestId: 'a', detail: 'why' });
    logger.error(new TypeError('boom'));
    Logger.overrideLogger(false);
    expect(lines).toEqual([
      { level: 40, context: 'Here', msg: 'text' },
      { level: 50, context: 'Here', detail: 'Error: x\n    at y', msg: 'text' },
      { level: 50, context: 'Here', requestId: 'a', detail: 'why', msg: 'text' },
      { level: 50, context: 'Here', detail: expect.stringContaining('TypeError: boom') as unknown, msg: 'boom' },
    ]);
  });

  it("writes Nest's lines about its own wiring for debugging only", () => {
    const [info, debug] = [loggerOf('info'), loggerOf('debug')];
    info.log('AppModule dependencies initialized', 'InstanceLoader');
    debug.log('AppModule dependencies initialized', 'InstanceLoader');
    expect(lines).toEqual([{ level: 20, context: 'InstanceLoader', msg: 'AppModule dependencies initialized' }]);
  });
});

describe('a line on a terminal', () => {
  const TIME = { time: '2026-11-26T12:00:00.000Z' };
  const REQUEST = { level: 30, ...TIME, method: 'GET', route: '/docs', status: 200, durationMs: 1.5 };

  it.each([
    [{ level: 40, ...TIME, context: 'Here', host: '::1', msg: 'lost it' }, 'WARN: [Here] lost it {"host":"::1"}'],
    [
      { level: 50, ...TIME, context: 'Errors', detail: 'Error: x\n    at y', msg: 'a' },
      'ERROR: [Errors] a\nError: x\n    at y',
    ],
    [REQUEST, 'INFO: GET /docs 200 {"method":"GET","route":"/docs","status":200,"durationMs":1.5}'],
    [{ ...REQUEST, status: undefined, aborted: true }, 'INFO: GET /docs aborted {'],
    [{ ...REQUEST, route: 'unmatched', path: '/nothing' }, 'INFO: GET /nothing 200 {'],
  ])('shows level, context, text, stack and fields, of a request method, path and status: %j', (line, expected) => {
    const shown = stripVTControlCharacters(formatLine(JSON.stringify(line)));
    expect(shown).toMatch(/^\[\d\d:\d\d:\d\d\.000\] /);
    expect(shown).toContain(` ${expected}`);
  });
});
