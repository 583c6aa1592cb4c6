import { access, constants, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { asError } from '../../../common/as-error.js';
import type { ConfigurationFacts, DiskFacts, Known } from '../facts.js';

/** The file system that holds, or will hold, the embedded database. */
export async function collectDisk({ config, invalid }: ConfigurationFacts): Promise<Known<DiskFacts>> {
  if (config.databaseUrl !== undefined || invalid.has('DATABASE_URL')) {
    return { reason: 'the database is not the embedded one' };
  }
  const { EMBEDDED_FOLDER } = await import('../../../embedded/embedded-service.js');
  try {
    return { value: await read(EMBEDDED_FOLDER) };
  } catch {
    // The first start creates it.
    return read(dirname(EMBEDDED_FOLDER)).then(
      (value) => ({ value }),
      (error: unknown) => ({ reason: asError(error).message }),
    );
  }
}

async function read(folder: string): Promise<DiskFacts> {
  const { bavail, bsize } = await statfs(folder);
  const isWritable = await access(folder, constants.W_OK).then(
    () => true,
    () => false,
  );
  return { folder, freeBytes: bavail * bsize, isWritable };
}
