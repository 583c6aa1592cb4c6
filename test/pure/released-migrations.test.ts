import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const PRISMA = join(__dirname, '..', '..', 'prisma');
/** How many migrations the first release has. */
const RELEASED_MIN = 4;

it('released migrations never change and precede all others, so that every database gets the same', () => {
  const released = readFileSync(join(PRISMA, 'released-migrations.sha256'), 'utf8').trimEnd().split('\n');
  const migrations = readdirSync(join(PRISMA, 'migrations')).filter((name) => /^\d/.test(name));
  const lines = migrations.sort().map((name) => {
    const digest = hash('sha256', readFileSync(join(PRISMA, 'migrations', name, 'migration.sql')), 'hex');
    return `${digest}  prisma/migrations/${name}/migration.sql`;
  });
  expect(released).toEqual(lines.slice(0, Math.max(RELEASED_MIN, released.length)));
});
