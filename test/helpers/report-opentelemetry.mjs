// Imported by a process of ours before anything else: says at its end which of OpenTelemetry's packages it has loaded. They
// are CommonJS, so that whatever imports them leaves them in the cache of `require`.
import { createRequire } from 'node:module';

const { cache } = createRequire(import.meta.url);

process.on('exit', () => {
  const names = Object.keys(cache).map((path) => /@opentelemetry\/[\w-]+/.exec(path)?.[0]);
  process.stderr.write(`loaded: ${JSON.stringify([...new Set(names.filter(Boolean))])}\n`);
});
