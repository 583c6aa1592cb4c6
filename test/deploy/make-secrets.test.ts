import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const SCRIPT = join(__dirname, '..', '..', 'deploy', 'make-secrets.sh');

describe('deploy/make-secrets.sh', () => {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-secrets-'));
  const run = (): { status: number | null } =>
    spawnSync('sh', [join(folder, 'make-secrets.sh')], { env: { PATH: `${folder}:${process.env.PATH}` } });
  const secrets = (): string[] =>
    readdirSync(join(folder, 'secrets'))
      .filter((name) => name !== '.gitignore')
      .sort();
  const read = (name: string): string => readFileSync(join(folder, 'secrets', name), 'utf8').trim();

  beforeAll(() => copyFileSync(SCRIPT, join(folder, 'make-secrets.sh')));
  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  it('writes nothing when a password cannot be generated', () => {
    writeFileSync(join(folder, 'base64'), '#!/bin/sh\nexit 127\n');
    chmodSync(join(folder, 'base64'), 0o755);
    expect(run().status).toBe(1);
    expect(secrets()).toEqual([]);
    rmSync(join(folder, 'base64'));
  });

  it('writes different passwords, and replaces none', () => {
    expect(run().status).toBe(0);
    const urls = ['owner_database_url', 'service_database_url', 'redis_url'].map(
      (name) => new URL(read(name)).password,
    );
    const passwords = [read('postgres_password'), read('grafana_password'), ...urls];
    expect(new Set(passwords.filter((password) => /^[\w-]{32}$/.test(password))).size).toBe(passwords.length);
    expect(read('redis_password')).toBe(urls[2]);

    const before = secrets().map(read);
    expect(run().status).toBe(0);
    expect(secrets().map(read)).toEqual(before);
  });
});
