// Compares builds of this service: node bench/builds.mjs before=../before now=. [--only cancel,list --rounds 7 --seconds 1]
import { compareAll, readOptions } from './compare.mjs';
import { buildIn } from './servers/contestants.mjs';

const options = readOptions();
const builds = options.positionals.map((argument) => argument.split('='));
if (builds.length < 2 || builds.some(({ length }) => length !== 2)) {
  throw new Error('Name two builds: node bench/builds.mjs before=FOLDER after=FOLDER');
}
await compareAll(options, () => builds.map(([name, folder]) => buildIn(folder, name)));
