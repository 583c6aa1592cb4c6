// Compares this service with other implementations, and its large lists with psql: npm run bench. See README.md.
import { compareAll, readOptions } from './compare.mjs';
import { buildIn, peers } from './servers/contestants.mjs';

await compareAll(readOptions(), (folder) => [buildIn('.'), ...peers(folder)]);
