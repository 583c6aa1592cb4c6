import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

/** The folders of files that docker-compose.yml mounts. */
const MOUNTED = [
  ...new Set(
    Array.from(
      readFileSync(join(__dirname, '..', '..', 'docker-compose.yml'), 'utf8').matchAll(
        /'?\.\/deploy\/([\w-]+)[/:]\S*:ro/g,
      ),
      ([, name]) => name ?? '',
    ),
  ),
];
const SCRIPT = join(__dirname, '..', '..', 'deploy', 'make-secrets.sh');

describe('deploy/make-secrets.sh', () => {
  const folder = useTemporaryFolder('make-secrets');
  const run = (): { status: number | null; stderr: string } =>
    spawnSync('sh', [join(folder, 'make-secrets.sh')], {
      env: { PATH: `${folder}:${process.env.PATH}` },
      encoding: 'utf8',
    });
  const secrets = (): string[] =>
    readdirSync(join(folder, 'secrets'))
      .filter((name) => name !== '.gitignore')
      .sort();
  const read = (name: string): string => readFileSync(join(folder, 'secrets', name), 'utf8').trim();

  beforeAll(() => {
    copyFileSync(SCRIPT, join(folder, 'make-secrets.sh'));
    for (const name of MOUNTED) {
      // As in a clone that only its owner can read.
      mkdirSync(join(folder, name), { mode: 0o700 });
      writeFileSync(join(folder, name, 'file'), '', { mode: 0o600 });
    }
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

  describeWithRedis('makes users of Redis', () => {
    it('with which counts survive a restart, and without which nothing can be read', async () => {
      const flags = [
        '--aclfile',
        join(folder, 'secrets', 'redis_users'),
        '--appendonly',
        'yes',
        '--appendfsync',
        'always',
      ];
      const server = await RedisServer.start(flags, `petstore:${read('redis_password')}@`);
      const redis = server.connect();
      // What a script writes is a transaction in the file.
      await redis.eval(
        `redis.call('HSET', KEYS[1], 'minute', 1) redis.call('PEXPIRE', KEYS[1], 60000)`,
        1,
        'petstore:a',
      );
      await server.kill();
      await server.restart();
      expect(await redis.hget('petstore:a', 'minute')).toBe('1');
      const anonymous = new Redis(server.port, { enableReadyCheck: false });
      await expect(anonymous.get('petstore:a')).rejects.toThrow('NOAUTH');
      anonymous.disconnect();
      redis.disconnect();
      await server.stop();
    });
  });

  it('makes no password of Redis that differs between its files', () => {
    const before = read('redis_users');
    rmSync(join(folder, 'secrets', 'redis_password'));
    expect(run()).toMatchObject({ status: 1, stderr: expect.stringContaining('remove all three') as string });
    expect(secrets()).not.toContain('redis_password');
    rmSync(join(folder, 'secrets', 'redis_url'));
    rmSync(join(folder, 'secrets', 'redis_users'));
    expect(run().status).toBe(0);
    expect(new URL(read('redis_url')).password).toBe(read('redis_password'));
    expect(read('redis_users')).not.toBe(before);
  });

  it('lets every user read what containers mount', () => {
    expect(MOUNTED.sort()).toEqual(['grafana', 'postgres', 'prometheus', 'proxies', 'redis']);
    for (const path of MOUNTED.map((name) => join(folder, name))) {
      expect([statSync(path).mode & 0o777, statSync(join(path, 'file')).mode & 0o777]).toEqual([0o755, 0o644]);
    }
    expect(statSync(join(folder, 'secrets')).mode & 0o777).toBe(0o700);
  });
});
