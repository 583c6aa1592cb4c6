import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { describeIf } from './describe-if.js';

const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome'];

/** Prevents requests other than those of the page under test. */
const QUIET_FLAGS = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

function findBrowser(): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return PROGRAMS.flatMap((program) => folders.map((folder) => join(folder, program))).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** `describe` where Chromium is installed, and always in CI; skips the tests with a message elsewhere. */
export const describeWithBrowser = describeIf(
  findBrowser() !== undefined || process.env.CI === 'true',
  'Chromium (Debian: apt install chromium)',
);

/** Starts a headless Chromium with an empty profile. */
export function startBrowser(): Promise<Browser> {
  const executablePath = findBrowser();
  if (executablePath === undefined) {
    throw new Error(`Chromium not found: none of ${PROGRAMS.join(', ')} is on the PATH.`);
  }
  // Chromium's sandbox does not run as root.
  return chromium.launch({ executablePath, chromiumSandbox: process.getuid?.() !== 0, args: QUIET_FLAGS });
}
