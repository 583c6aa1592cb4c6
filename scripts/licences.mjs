import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

const LICENCE_FILE = /^(?:licen[cs]e|copying|notice)/i;

/**
 * The licences of bundled packages, which must accompany their code.
 * @param {string} root
 * @param {string[]} files bundled files, relative to the root
 * @returns {string}
 */
export function licencesOf(root, files) {
  const folders = new Set(files.map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0]));
  folders.delete(undefined);
  return [...folders]
    .sort()
    .map((folder) => licenceOf(join(root, folder)))
    .join(`\n${'-'.repeat(80)}\n`);
}

function licenceOf(folder) {
  const manifest = join(folder, 'package.json');
  const {
    name,
    version,
    license,
    licenses = [],
  } = existsSync(manifest) ? JSON.parse(readFileSync(manifest, 'utf8')) : {};
  const texts = readdirSync(folder)
    .filter((file) => LICENCE_FILE.test(file))
    .flatMap((file) => textsIn(join(folder, file)));
  return [`${name} ${version} (${license ?? licenses.map(({ type }) => type).join(', ')})`, ...texts, ''].join('\n\n');
}

/** The text of a file, or those of all files in a folder: the licences of copied code. */
function textsIn(path) {
  return statSync(path).isDirectory()
    ? readdirSync(path).flatMap((file) => textsIn(join(path, file)))
    : [readFileSync(path, 'utf8').trim()];
}
