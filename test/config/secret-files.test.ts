import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/config.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const DATABASE_URL = 'postgresql://user:hunter2@host:5432/database';
const REDIS_URL = 'redis://:hunter2@host:6379';

const folder = useTemporaryFolder('secrets');

function file(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

describe('loadConfig, for a secret in a file,', () => {
  it('reads the value without the line feed at its end', () => {
    const config = loadConfig({
      DATABASE_URL_FILE: file('database', `${DATABASE_URL}\n`),
      REDIS_URL_FILE: file('redis', `${REDIS_URL}\r\n`),
    });
    expect(config.databaseUrl).toBe(DATABASE_URL);
    expect(config.redisUrl).toBe(REDIS_URL);
  });

  it('accepts DATABASE_URL_FILE alone in production', () => {
    expect(loadConfig({ NODE_ENV: 'production', DATABASE_URL_FILE: file('database', DATABASE_URL) }).databaseUrl).toBe(
      DATABASE_URL,
    );
  });

  it('reads the file when the variable itself is empty', () => {
    const variables = { DATABASE_URL: '', DATABASE_URL_FILE: file('database', DATABASE_URL) };
    expect(loadConfig(variables).databaseUrl).toBe(DATABASE_URL);
  });

  it.each(['DATABASE_URL', 'REDIS_URL'])('rejects %s together with its _FILE variant', (name) => {
    const value = name === 'REDIS_URL' ? REDIS_URL : DATABASE_URL;
    const load = (): unknown => loadConfig({ [name]: value, [`${name}_FILE`]: file('both', value) });
    expect(load).toThrow(`${name} and ${name}_FILE are both set; set one of them`);
    expect(load).not.toThrow('hunter2');
  });

  it('rejects a file that cannot be read and gives its path and the reason', () => {
    const path = join(folder, 'nothing-here');
    expect(() => loadConfig({ DATABASE_URL_FILE: path })).toThrow(
      `DATABASE_URL_FILE must be the path of a readable file (got "${path}": ENOENT)`,
    );
    const directory = join(folder, 'directory');
    mkdirSync(directory);
    expect(() => loadConfig({ REDIS_URL_FILE: directory })).toThrow(
      `REDIS_URL_FILE must be the path of a readable file (got "${directory}": EISDIR)`,
    );
  });

  it.each([
    ['a URL', DATABASE_URL],
    ['one with a slash too few', DATABASE_URL.replace('//', '/')],
    ['one without its scheme', DATABASE_URL.replace(/^\w+:/, '')],
  ])('does not quote %s that is set in the place of the path', (_what, url) => {
    const load = (): unknown => loadConfig({ DATABASE_URL_FILE: url });
    expect(load).toThrow('DATABASE_URL_FILE must be the path of a readable file (got a URL)');
    expect(load).not.toThrow('hunter2');
  });

  it('reports an unreadable file once in production', () => {
    const load = (): unknown =>
      loadConfig({ NODE_ENV: 'production', DATABASE_URL_FILE: join(folder, 'nothing-here'), PORT: 'x' });
    expect(load).toThrow(/^Invalid configuration:(?:\n {2}- [^\n]+){2}$/);
  });

  it.each([
    ['nothing', ''],
    ['white space', ' \n'],
    ['no URL', 'hunter2'],
    ['two lines', `${DATABASE_URL}\nhunter2\n`],
  ])('rejects a file that contains %s without quoting it', (_what, content) => {
    const load = (): unknown => loadConfig({ DATABASE_URL_FILE: file('bad', content) });
    expect(load).toThrow('DATABASE_URL');
    expect(load).not.toThrow('hunter2');
  });

  it('ignores _FILE variants of variables that hold no secret', () => {
    expect(loadConfig({ PORT_FILE: file('port', '4000'), HOST_FILE: join(folder, 'nothing-here') })).toEqual(
      loadConfig({}),
    );
  });
});
