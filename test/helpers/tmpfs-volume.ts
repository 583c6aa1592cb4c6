import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeIf } from './describe-if.js';
import { waitFor } from './wait-for.js';

/** A small in-memory file system that a test can fill completely. Only root may mount it. */
export class TmpfsVolume {
  private constructor(readonly folder: string) {}

  /** @throws {Error} without the permission to mount */
  static mount(megabytes: number): TmpfsVolume {
    const folder = mkdtempSync(join(tmpdir(), 'petstore-disk-'));
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder], { stdio: 'pipe' });
    } catch (error) {
      rmSync(folder, { recursive: true });
      throw error;
    }
    chmodSync(folder, 0o777);
    return new TmpfsVolume(folder);
  }

  /** Fills the volume. */
  fill(): void {
    const file = openSync(this.#ballast, 'a');
    const block = Buffer.alloc(4_096, 'x');
    try {
      while (writeSync(file, block) > 0);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') {
        throw error;
      }
    } finally {
      closeSync(file);
    }
  }

  /** Frees the space that {@link fill} used. */
  free(): void {
    rmSync(this.#ballast, { force: true });
  }

  /** Waits for processes that are ending: each closes its files before it leaves its working directory. */
  async unmount(): Promise<void> {
    const isUnmounted = (): boolean => spawnSync('umount', [this.folder]).status === 0;
    await waitFor(isUnmounted, `${this.folder} is unmounted`);
    rmSync(this.folder, { recursive: true });
  }

  get #ballast(): string {
    return join(this.folder, 'ballast');
  }
}

function canMount(): boolean {
  try {
    const { folder } = TmpfsVolume.mount(1);
    execFileSync('umount', [folder], { stdio: 'pipe' });
    rmSync(folder, { recursive: true });
    return true;
  } catch {
    return false;
  }
}

/** `describe` where a file system can be mounted; skips the tests with a message elsewhere. */
export const describeWithTmpfs = describeIf(canMount(), 'permission to mount a file system (run as root)');
