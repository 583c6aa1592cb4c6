import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { progress } from '../progress.mjs';

const file = (path) => fileURLToPath(new URL(path, import.meta.url));

/**
 * A server that takes part: its name in the table, its command, and the scenarios in which it does.
 * @typedef {object} Contestant
 * @property {string} name
 * @property {string[]} command
 * @property {string[]} [scenarios] all by default
 * @property {boolean} [isOwn] whether it is a build of this service, which alone keeps lists in memory and sends 304
 * @property {boolean} [compresses] whether it compresses lists
 */

/** @param {string} folder of a build of this service @returns {Contestant} */
export function buildIn(folder, name = 'this service') {
  const command = [process.execPath, '--enable-source-maps', join(resolve(folder), 'dist/bundle/main.js')];
  return { name, command, isOwn: true, compresses: true };
}

/** @returns {Contestant[]} those that can run on this machine; the Go peer is built in `folder` */
export function peers(folder) {
  return [
    { name: 'Fastify + pg', command: [process.execPath, file('../peers/fastify-pg.mjs')], compresses: true },
    {
      name: 'NestJS + Prisma',
      command: [process.execPath, file('../peers/nest-prisma.mjs')],
      scenarios: ['cancel', 'list', 'changes', 'memory', 'start'],
    },
    ...goPeer(folder),
  ];
}

function goPeer(folder) {
  const program = join(folder, 'go-pgx');
  // Where Debian's packages put Go libraries.
  const env = { GO111MODULE: 'off', GOPATH: '/usr/share/gocode', GOCACHE: join(tmpdir(), 'petstore-bench-go') };
  const { status } = spawnSync('go', ['build', '-o', program, file('../peers/go-pgx/main.go')], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (status !== 0) {
    progress('skipping Go: apt install golang-go golang-github-jackc-pgx-v4-dev golang-github-gomodule-redigo-dev');
    return [];
  }
  return [{ name: 'Go + pgx', command: [program], scenarios: ['cancel', 'list', 'changes', 'memory', 'start'] }];
}
