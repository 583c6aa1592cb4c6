import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** `npm ci` in a folder, once; in its own process, because Jest does not import ESM. */
export function installOnce(folder: string): void {
  const module = pathToFileURL(join(__dirname, '..', '..', '.ci', 'install.mjs')).href;
  const script = `import { installOnce } from ${JSON.stringify(module)}; installOnce(${JSON.stringify(folder)});`;
  execFileSync(process.execPath, ['--input-type=module', '--eval', script], { stdio: ['ignore', 'ignore', 'inherit'] });
}
