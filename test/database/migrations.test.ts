import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const ROOT = join(__dirname, '..', '..');

jest.setTimeout(60_000);

describe('the migrations', () => {
  it('produce exactly the schema', async () => {
    const { stdout } = await run(process.execPath, [join(ROOT, 'prisma', 'check-migrations.mjs')], {
      cwd: ROOT,
      env: { ...process.env, DATABASE_URL: process.env.TEST_POSTGRES_URL },
    });
    expect(stdout).toMatch(/migrations produce/i);
  });
});
