import type pg from 'pg';
import { ok, type Result, warning } from './check.js';
import { ALLOWED } from './rights.js';

/** What a login of the service or of commands may have, if it does not have it by a role. */
const EXPECTED = [...ALLOWED, 'INSERT ON api_keys', 'UPDATE ON api_keys', 'INSERT ON orders'];

/** What others may do with the tables beyond reading them, as in GRANT, and their foreign keys to them. */
const SELECT_PROBLEMS = `
  WITH service AS (
    SELECT oid, relname, relowner, relacl FROM pg_class WHERE relnamespace = 'public'::regnamespace
      AND relname IN ('orders', 'api_keys', 'api_key_usage', 'order_list_changes', '_prisma_migrations')
  ), object AS (
    SELECT relname, relowner, relacl AS acl, '' AS columns FROM service
    UNION ALL
    SELECT relname, relowner, attacl, format(' (%I)', attname) FROM service JOIN pg_attribute ON attrelid = oid
  ), granted AS (
    SELECT string_agg(privilege_type || columns, ', ') AS privileges, relname,
           CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS grantee
    FROM object, aclexplode(acl)
    WHERE grantee <> relowner AND grantee IS DISTINCT FROM to_regrole('petstore_service')::oid
      AND privilege_type <> 'SELECT' AND format('%s%s ON %s', privilege_type, columns, relname) <> ALL ($1)
    GROUP BY grantee, relname
  )
  SELECT format('%s has %s ON %s', grantee, privileges, relname) AS problem,
         format('REVOKE %s ON %s FROM %s CASCADE;', privileges, relname, grantee) AS remedy FROM granted
  UNION ALL
  SELECT format('%s of %s refers to %s', conname, conrelid::regclass, service.relname),
         format('ALTER TABLE %s DROP CONSTRAINT %I;', conrelid::regclass, conname)
  FROM pg_constraint JOIN service ON service.oid = confrelid JOIN pg_class ON pg_class.oid = conrelid
  WHERE contype = 'f' AND conparentid = 0 AND pg_class.relowner <> service.relowner
  ORDER BY problem`;

/** SECURITY.md says why others should have nothing of this. */
export async function checkGrants(db: pg.Client): Promise<Result> {
  const { rows } = await db.query<Record<'problem' | 'remedy', string>>(SELECT_PROBLEMS, [EXPECTED]);
  if (rows.length === 0) {
    return ok('other roles may at most read the tables');
  }
  return warning(
    `${rows.map(({ problem }) => problem).join('; ')}: this lets others run code as whoever writes the table, or change what is in it`,
    `Unless you trust them like the owner, run as a superuser, or as the owner of the table that each names: ${rows.map(({ remedy }) => remedy).join(' ')}`,
  );
}
