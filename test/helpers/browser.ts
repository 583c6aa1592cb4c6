import { spawnSync } from 'node:child_process';
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

/** The first of the programs that are on the PATH. */
const [executablePath = ''] = spawnSync('which', PROGRAMS, { encoding: 'utf8' }).stdout.split('\n');

/** `describe` where Chromium is installed, and always in CI; skips the tests with a message elsewhere. */
export const describeWithBrowser = describeIf(
  executablePath !== '' || process.env.CI === 'true',
  'Chromium (Debian: apt install chromium)',
);

/** Starts a headless Chromium with an empty profile. */
export function startBrowser(): Promise<Browser> {
  if (executablePath === '') {
    throw new Error(`Chromium not found: none of ${PROGRAMS.join(', ')} is on the PATH.`);
  }
  // Chromium's sandbox does not run as root.
  return chromium.launch({ executablePath, chromiumSandbox: process.getuid?.() !== 0, args: QUIET_FLAGS });
}
