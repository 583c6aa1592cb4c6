// Preloaded by the memory profile: reports V8's heap to the parent process when it asks.
import { getHeapSpaceStatistics } from 'node:v8';

process.on('message', () => {
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  process.send?.({ spaces: getHeapSpaceStatistics(), heapUsed, external, arrayBuffers });
});
// The channel must not keep the process alive.
process.channel?.unref();
