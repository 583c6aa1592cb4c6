import type { Check } from '../check.js';
import { ifKnown } from '../facts.js';
import { error, ok, warning } from '../finding.js';

const MEBIBYTE = 1_048_576;
const WARNING_BYTES = 1_024 * MEBIBYTE;
const ERROR_BYTES = 100 * MEBIBYTE;

export const disk: Check = {
  name: 'disk',
  evaluate: ({ disk: facts }) =>
    ifKnown(facts, ({ folder, freeBytes, isWritable }) => {
      if (!isWritable) {
        return error(
          `${folder} is not writable`,
          'Make it writable for this user: the embedded database is stored there.',
        );
      }
      const message = `${Math.floor(freeBytes / MEBIBYTE).toLocaleString('en')} MiB free for the embedded database`;
      const remedy = `Free disk space for ${folder}: PostgreSQL stops when the disk is full.`;
      if (freeBytes < WARNING_BYTES) {
        return freeBytes < ERROR_BYTES ? error(`only ${message}`, remedy) : warning(`only ${message}`, remedy);
      }
      return ok(message);
    }),
};
