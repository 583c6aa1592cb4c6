import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { progress } from '../measure/progress.mjs';

const SOURCE = fileURLToPath(new URL('../peers/go-pgx/main.go', import.meta.url));
/** Where Debian's packages put Go libraries. */
const ENVIRONMENT = { GO111MODULE: 'off', GOPATH: '/usr/share/gocode', GOCACHE: join(tmpdir(), 'petstore-bench-go') };

let binary;

/**
 * Builds the Go peer on the first call.
 * @returns {string | undefined} its program; undefined where Go or its libraries are missing, which is reported once
 */
export function goPeer(folder) {
  if (binary === undefined) {
    const path = join(folder, 'go-pgx');
    const { status, error } = spawnSync('go', ['build', '-o', path, SOURCE], {
      env: { ...process.env, ...ENVIRONMENT },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    binary = status === 0 && error === undefined ? path : '';
    if (binary === '') {
      progress(
        'skipping Go + pgx + Redis: it needs golang-go, golang-github-jackc-pgx-v4-dev and ' +
          'golang-github-gomodule-redigo-dev (Debian: apt install)',
      );
    }
  }
  return binary === '' ? undefined : binary;
}
