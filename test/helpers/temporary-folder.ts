import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder for the tests of the file or of the `describe` block that calls it; it is there when they run. */
export function useTemporaryFolder(name: string): string {
  const folder = join(tmpdir(), `petstore-${name}-${randomBytes(4).toString('hex')}`);
  beforeAll(() => {
    mkdirSync(folder, { mode: 0o700 });
  });
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  return folder;
}
