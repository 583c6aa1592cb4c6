import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/config.js';
import { composeServices } from '../helpers/compose.js';

const read = (path: string): string => readFileSync(join(__dirname, '..', '..', path), 'utf8');

/** Ports are those that other parts of the file use; the two secrets are files. */
const FIXED = ['HOST', 'PORT', 'METRICS_PORT', 'DATABASE_URL', 'REDIS_URL'];
const OTEL_BSP = ['SCHEDULE_DELAY', 'MAX_QUEUE_SIZE', 'MAX_EXPORT_BATCH_SIZE', 'EXPORT_TIMEOUT'];

describe('docker-compose.yml', () => {
  const example = read('.env.example');
  const documented = [
    ...[...example.matchAll(/^#?([A-Z][A-Z0-9_]+)=/gm)].map(([, name = '']) => name),
    ...[...example.matchAll(/\bOTEL_[A-Z_]+[A-Z]\b/g)].map(([name]) => name),
    ...OTEL_BSP.map((name) => `OTEL_BSP_${name}`),
  ].filter((name) => !FIXED.includes(name));

  it.each([
    ['service', { TRUST_PROXY: 'TRUST_PROXY' }],
    ['replica', { TRUST_PROXY: 'REPLICA_TRUST_PROXY' }],
  ])('passes every documented variable to %s', (name, renamed: Readonly<Record<string, string>>) => {
    const variables = Object.fromEntries(documented.map((each) => [renamed[each] ?? each, `value of ${each}`]));
    const { environment } = composeServices(variables)[name]!;
    expect(documented.length).toBeGreaterThan(25);
    expect(environment).toMatchObject(Object.fromEntries(documented.map((each) => [each, `value of ${each}`])));
  });

  it.each(['service', 'replica'])('configures %s like the defaults when nothing is set', (name) => {
    const { environment } = composeServices()[name]!;
    const own = ['DATABASE_URL_FILE', 'REDIS_URL_FILE', 'TRUST_PROXY', 'SHUTDOWN_DELAY_SECONDS'];
    const others = Object.entries(environment!).filter(([each]) => !own.includes(each));
    const url = { DATABASE_URL: 'postgresql://service@postgres/petstore' };
    expect(loadConfig({ ...Object.fromEntries(others), ...url })).toEqual(loadConfig(url));
  });

  it('lets what uses the database reach a managed one', () => {
    const reaching = Object.entries(composeServices()).filter(([, { networks }]) => networks?.includes('default'));
    expect(reaching.map(([name]) => name)).toEqual(['migrate', 'service', 'admin', 'replica']);
  });

  it('runs every container below an init process', () => {
    const services = Object.entries(composeServices());
    expect(services.filter(([, { init }]) => init !== true)).toEqual([]);
  });

  it('lets every image be pinned by its digest', () => {
    const all = Object.values(composeServices());
    const foreign = all.map(({ image }) => image).filter((image) => !image.startsWith('petstore-'));
    const names = ['NODE', 'POSTGRES', 'REDIS', 'HAPROXY', 'PROMETHEUS', 'GRAFANA'].map((name) => `${name}_IMAGE`);
    const pinned = Object.values(composeServices(Object.fromEntries(names.map((name) => [name, `${name}@sha256:1`]))));
    const images = pinned.map(({ image }) => image).filter((image) => !image.startsWith('petstore-'));
    expect(images).toHaveLength(foreign.length);
    expect(images.filter((image) => !image.endsWith('_IMAGE@sha256:1'))).toEqual([]);
    const built = pinned.flatMap(({ build }) => (build === undefined ? [] : [build.args.NODE_IMAGE]));
    expect(built).toEqual(['NODE_IMAGE@sha256:1', 'NODE_IMAGE@sha256:1']);

    const dockerfile = read('Dockerfile');
    const bases = [...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, base]) => base);
    expect(new Set(bases)).toEqual(new Set(['${NODE_IMAGE}']));
    // One default for Compose and for a plain build; the documented ones are these.
    const defaults = [...foreign, /^ARG NODE_IMAGE=(\S+)$/m.exec(dockerfile)?.[1]];
    expect(all.flatMap(({ build }) => (build === undefined ? [] : [build.args.NODE_IMAGE]))).toEqual([
      defaults.at(-1),
      defaults.at(-1),
    ]);
    const shown = [...read('docs/operations.md').matchAll(/\b[A-Z]+=([a-z]+:[\w.-]+)/g)].map(([, image]) => image);
    expect(shown).toHaveLength(4);
    expect(defaults).toEqual(expect.arrayContaining(shown));
  });
});
