// Generates the Prisma client. Prints Prisma's output only when it fails.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const CLI = fileURLToPath(import.meta.resolve('prisma/build/index.js'));

try {
  execFileSync(process.execPath, [CLI, 'generate', '--no-hints'], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    stdio: 'pipe',
    // It needs no database, and the variable may be that of another project.
    env: { ...process.env, DATABASE_URL: '', DATABASE_URL_FILE: '' },
  });
} catch (error) {
  const { stdout, stderr } = /** @type {{ stdout?: Buffer, stderr?: Buffer }} */ (error);
  process.stderr.write(`${stdout ?? ''}${stderr ?? ''}`);
  process.exitCode = 1;
}
