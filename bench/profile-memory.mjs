// Shows what the memory of an idle service consists of:
//
//   npm run profile:memory [-- FILE [ARGUMENT…]]     the production bundle by default
//
// Two views of the same memory: what the kernel has mapped (/proc/PID/smaps), and what V8 knows about its heap.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { serviceAt, startContestant } from './contestants/contestants.mjs';
import { Environment } from './environment/environment.mjs';
import { markdown } from './report/markdown.mjs';

const IDLE_AFTER_MS = 2_000;
const REPORT_HEAP = fileURLToPath(new URL('measure/report-heap.mjs', import.meta.url));
/** glibc gives each arena of a thread an address range of this size, aligned to it. */
const ARENA_BYTES = 2 ** 26;
const SHOWN_FROM_BYTES = 2 ** 19;

const bench = new Environment();
try {
  await bench.start();
  const database = await bench.databases.forLists(1);
  const contestant = serviceAt(process.argv.slice(2));
  const server = await startContestant(contestant, bench, database, {
    nodeFlags: ['--import', REPORT_HEAP],
    ipc: true,
  });
  try {
    await delay(IDLE_AFTER_MS);
    const mapped = mappedBy(server.pid);
    server.child.send('report');
    const [heap] = await once(server.child, 'message');
    process.stdout.write(`${markdown(['resident, MiB', 'mapping'], mapped)}\n\n${heapTable(heap)}\n`);
  } finally {
    await server.stop();
  }
} finally {
  await bench.stop();
}

function mappedBy(pid) {
  const kinds = new Map();
  let total = 0;
  for (const mapping of readFileSync(`/proc/${pid}/smaps`, 'utf8').split(/\n(?=[0-9a-f]+-[0-9a-f]+ )/)) {
    const bytes = Number(/^Rss:\s+(\d+) kB/m.exec(mapping)[1]) * 1_024;
    const kind = kindOf(mapping);
    kinds.set(kind, (kinds.get(kind) ?? 0) + bytes);
    total += bytes;
  }
  const rows = [...kinds]
    .filter(([, bytes]) => bytes > SHOWN_FROM_BYTES)
    .sort(([, left], [, right]) => right - left)
    .map(([kind, bytes]) => [mebibytes(bytes), kind]);
  return [...rows, [mebibytes(total), 'in all']];
}

function kindOf(mapping) {
  const [range, permissions, , , inode, file = ''] = mapping.split('\n', 1)[0].split(/\s+/);
  if (inode !== '0') {
    return `file pages: ${file.slice(file.lastIndexOf('/') + 1).replace(/-[\d.]+\.so|\.so[\d.]*$/, '')}`;
  }
  if (file !== '') {
    return file === '[heap]' ? 'malloc: main arena' : file;
  }
  const start = Number(`0x${range.split('-')[0]}`);
  if (permissions.includes('x')) {
    return 'code: compiled JavaScript and WebAssembly';
  }
  // Addresses from 0x7f… are libraries, stacks and arenas; V8 places its heap at random addresses below.
  if (start < 0x7e0000000000) {
    return "V8's heap";
  }
  return start % ARENA_BYTES === 0 ? 'malloc: arenas of threads' : 'stacks, large blocks of malloc';
}

function heapTable({ spaces, heapUsed, external, arrayBuffers }) {
  const rows = spaces
    .filter((space) => space.physical_space_size > 0)
    .map((space) => [mebibytes(space.physical_space_size), mebibytes(space.space_used_size), space.space_name]);
  return markdown(
    ['resident, MiB', 'used, MiB', 'heap space'],
    [
      ...rows,
      ['', mebibytes(heapUsed), 'all spaces'],
      ['', mebibytes(arrayBuffers), 'outside the heap: buffers'],
      ['', mebibytes(external - arrayBuffers), 'outside the heap: other objects of V8, WebAssembly included'],
    ],
  );
}

function mebibytes(bytes) {
  return (bytes / 2 ** 20).toFixed(1);
}
