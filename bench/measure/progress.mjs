const startedAt = performance.now();

/** Tells the terminal what goes on; the report alone is written to stdout. */
export function progress(text) {
  const seconds = Math.round((performance.now() - startedAt) / 1_000);
  process.stderr.write(`[${String(seconds).padStart(4)} s] ${text}\n`);
}
