import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/config.js';

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
    // Only the OpenTelemetry SDK reads it; the default was another one in release 1.0.0.
    const read = new Set(['OTEL_EXPORTER_OTLP_PROTOCOL']);
    loadConfig(new Proxy({}, { get: (_none, name: string) => void read.add(name) }));
    const named = variables(/^#?([A-Z_]+)=(.*)$/).map(([name]) => name);
    expect([...named, 'NODE_ENV', 'DATABASE_URL_FILE', 'REDIS_URL_FILE'].sort()).toEqual([...read].sort());
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
