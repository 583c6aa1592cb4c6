/**
 * Writes a log line in the format that the Prisma CLI expects: JSON on stderr, as the `tracing` crate of Rust writes it.
 * The CLI skips the first line and takes the error from the last `ERROR` line with this target.
 *
 * @param {'INFO' | 'ERROR'} level
 * @param {string} message
 * @param {Record<string, unknown>} [fields] further fields; the CLI reads `error_code` and `is_panic`
 */
export function log(level, message, fields = {}) {
  const line = {
    timestamp: new Date().toISOString(),
    level,
    fields: { message, ...fields },
    target: 'schema_engine::logger',
  };
  process.stderr.write(`${JSON.stringify(line)}\n`);
}
