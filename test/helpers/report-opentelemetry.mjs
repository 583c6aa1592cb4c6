// Preloaded with --import: prints at exit which OpenTelemetry packages the process has loaded. They are CommonJS, so every
// import leaves them in the cache of `require`.
import { createRequire } from 'node:module';

const { cache } = createRequire(import.meta.url);

process.on('exit', () => {
  const names = Object.keys(cache).map((path) => /@opentelemetry\/[\w-]+/.exec(path)?.[0]);
  process.stderr.write(`loaded: ${JSON.stringify([...new Set(names.filter(Boolean))])}\n`);
});
