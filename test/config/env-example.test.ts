import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { getMetadataStorage } from 'class-validator';
import { Environment } from '../../src/config/environment.schema.js';
import { loadConfig } from '../../src/config/load-config.js';

const lines = readFileSync(join(__dirname, '..', '..', '.env.example'), 'utf8').split('\n');

/** Name and value of each line that matches. */
function variables(form: RegExp): [string, string][] {
  return lines.flatMap((line) => {
    const [, name, value] = form.exec(line) ?? [];
    return name === undefined || value === undefined ? [] : [[name, value] as [string, string]];
  });
}

describe('.env.example', () => {
  it('lists every variable of the service exactly once', () => {
    const rules = getMetadataStorage().getTargetValidationMetadatas(Environment, '', true, false);
    const read = new Set(rules.map(({ propertyName }) => propertyName));
    const named = variables(/^#?([A-Z_]+)=(.*)$/).map(([name]) => name);
    expect([...named].sort()).toEqual([...read].sort());
  });

  it('shows the defaults', () => {
    expect(loadConfig(Object.fromEntries(variables(/^([A-Z_]+)=(.*)$/)))).toEqual(loadConfig({}));
  });

  it('gives valid examples for the variables without a default', () => {
    const suggested = variables(/^#([A-Z_]+)=(.+)$/);
    expect(suggested.length).toBeGreaterThan(3);
    expect(() => loadConfig(Object.fromEntries(suggested))).not.toThrow();
  });
});
