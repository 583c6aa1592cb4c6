const startedAt = performance.now();

/** Writes progress to stderr; stdout contains only the report. */
export function progress(text) {
  const seconds = Math.round((performance.now() - startedAt) / 1_000);
  process.stderr.write(`[${String(seconds).padStart(4)} s] ${text}\n`);
}
