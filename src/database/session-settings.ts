export type Settings = Readonly<Record<string, string | number>>;

/**
 * What the code relies on. Every connection sets it, because the role, the database or the URL may set something else.
 */
const RELIED_UPON: Settings = {
  // The tables are in this schema, and nothing in another one may shadow them.
  search_path: 'public',
  // A policy that hides rows makes a statement fail; the list is never silently shorter.
  row_security: 'off',
  // A cancel that waited for a lock must see what the other transaction committed.
  default_transaction_isolation: 'read committed',
  // Prisma sends and reads timestamps without an offset, and the list is written from the text form of a timestamp.
  timezone: 'UTC',
  datestyle: 'ISO, MDY',
  // Up to PostgreSQL 17 a kind of plan that is switched off is estimated as very expensive, and what is expensive is compiled: reading
  // the version of the list took 180 ms instead of 0.1 on PostgreSQL 15.
  jit: 'off',
  // Numbers are read as they are, and not rounded.
  extra_float_digits: 1,
  // Definitions of triggers and constraints are compared as PostgreSQL prints them.
  quote_all_identifiers: 'off',
  standard_conforming_strings: 'on',
};

/** A list that a slow client reads, and an import, may take long. The setting is new in PostgreSQL 17. */
const NO_TRANSACTION_TIMEOUT = `
  SELECT pg_catalog.set_config('transaction_timeout', '0', false)
  WHERE pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL`;

/**
 * The statements that a connection begins with, for one round trip. They are statements and not startup parameters,
 * because connection poolers reject parameters that they do not know. Durations are in milliseconds.
 */
export function sessionSettings(more: Settings = {}): string {
  // Pools keep idle sessions, and a session that listens is idle by nature. A transaction is never idle in this sense.
  const settings: Settings = { ...RELIED_UPON, idle_session_timeout: 0, ...more };
  const assignments = Object.entries(settings).map(
    ([name, value]) => `SET ${name} = ${typeof value === 'number' ? value : `'${value}'`}`,
  );
  return [...assignments, NO_TRANSACTION_TIMEOUT].join('; ');
}
