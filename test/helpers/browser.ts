import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { describeIf } from './describe-if.js';

const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome'];

/** What keeps a browser from asking anybody but the page that it is shown. */
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

/** `describe` where there is a Chromium, and in CI, where there must be one; elsewhere it says loudly what is left out. */
export const describeWithBrowser = describeIf(
  findBrowser() !== undefined || process.env.CI === 'true',
  'chromium',
  'there is no Chromium here (Debian: apt install chromium)',
);

/** A headless Chromium without a past. */
export function startBrowser(): Promise<Browser> {
  const executablePath = findBrowser();
  if (executablePath === undefined) {
    throw new Error(`There is no Chromium here: none of ${PROGRAMS.join(', ')} is on the PATH.`);
  }
  // The sandbox of Chromium refuses to run as root.
  return chromium.launch({ executablePath, chromiumSandbox: process.getuid?.() !== 0, args: QUIET_FLAGS });
}
