import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';

const COPY = 'COPY (SELECT id, pet_id, quantity, ship_date, complete FROM orders ORDER BY id) TO STDOUT';

/** The version of psql, or undefined if it is not installed. */
export function psqlVersion() {
  try {
    return execFileSync('psql', ['--version'], { encoding: 'utf8' }).trim();
  } catch {
    return undefined;
  }
}

/** Milliseconds for the whole of `psql -c "COPY …" -o /dev/null`, its start and its connection included. */
export const timeOfCopy = (databaseUrl) => timeOf(databaseUrl, COPY);

/** Milliseconds for psql to start, connect and exit: the part of the lower bound that is not the copy. */
export const timeOfNothing = (databaseUrl) => timeOf(databaseUrl, 'SELECT');

async function timeOf(databaseUrl, statement) {
  const { hostname, port, username, password, pathname } = new URL(databaseUrl);
  const startedAt = performance.now();
  const child = spawn('psql', ['--no-psqlrc', '-c', statement, '-o', '/dev/null'], {
    env: {
      PATH: process.env.PATH,
      PGHOST: hostname,
      PGPORT: port,
      PGUSER: username,
      PGPASSWORD: password,
      PGDATABASE: pathname.slice(1),
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) {
    throw new Error(`psql exited with code ${code}`);
  }
  return performance.now() - startedAt;
}
