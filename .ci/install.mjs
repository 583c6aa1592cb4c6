import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Installs the tools of a folder from its own lock file. Only the first installation needs the registry.
 * @param {string} folder
 */
export function installOnce(folder) {
  const lock = join(folder, 'package-lock.json');
  const installed = join(folder, 'node_modules', '.installed');
  if (existsSync(installed) && readFileSync(installed, 'utf8') === readFileSync(lock, 'utf8')) {
    return;
  }
  process.stderr.write(`Installing what ${folder} needs, once.\n`);
  const npm = process.env.npm_execpath;
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];
  if (npm === undefined) {
    execFileSync('npm', args, { cwd: folder, stdio: 'inherit' });
  } else {
    execFileSync(process.execPath, [npm, ...args], { cwd: folder, stdio: 'inherit' });
  }
  copyFileSync(lock, installed);
}

// node .ci/install.mjs FOLDER…
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.argv.slice(2).forEach((folder) => installOnce(resolve(folder)));
}
