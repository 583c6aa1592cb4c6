/**
 * Writes what the engine has to say the way the Prisma CLI expects it: one JSON object a line on standard error, in the
 * shape of Rust's `tracing` crate. The CLI drops the first line unread and takes what failed from the last `ERROR` line
 * whose target is `schema_engine::logger`.
 *
 * @param {'INFO' | 'ERROR'} level
 * @param {string} message
 * @param {Record<string, unknown>} [fields] further fields; the CLI knows `error_code` and `is_panic`
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
