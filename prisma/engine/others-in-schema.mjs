/**
 * Whoever may create in a schema of the search path may have functions and operators there, which PostgreSQL runs with the privileges
 * of the login whose statement uses them: for other types, `public.=` is preferred to its own. In clusters of PostgreSQL 14 and earlier,
 * also after an upgrade, everybody may create in the schema `public`.
 */

/** @import pg from 'pg' */

/**
 * @typedef {object} Others
 * @property {string[]} logins that may connect and create in the schema
 * @property {{ grantee: string, grantor: string | null, passedOn: boolean }[]} grants of this right, as in REVOKE; by the owner of the
 *   schema when the grantor is null
 * @property {{ name: string, statement: string }[]} objects of others, and what takes them out of the way
 * @property {string | null} owner of the tables if it is trusted, or of the database, as in GRANT
 * @property {string | null} untrusted the owner of the tables if it is not trusted, and owns all that there are
 */

/** Whoever has a relation in the place of one of these has its triggers, rules and functions run by those who use it. */
const RELATIONS = `'orders', 'orders_id_seq', 'api_keys', 'api_key_usage', 'order_list_changes', '_prisma_migrations'`;

/**
 * Others are all but superusers and those who may act as this login, or as the owner of the database, of the schema or of the tables.
 *
 * Another login may have made tables before the first migration, and given them to a role that this login is in, too, such as
 * `pg_monitor`. Their owner is trusted if this login has its privileges and owns neither database nor schema, and if the right to create
 * was granted to that role; a superuser has the privileges of every role, which proves nothing. In doctor it is trusted, too, by a login
 * like that of the service: one that has no right of its own to create, either, has nothing but what the owner of the tables granted to it.
 *
 * Operators and routines run in the place of those of PostgreSQL or of the service only if they have the same name.
 */
const selectOthers = (/** @type {boolean} */ asService) => `
  WITH schema AS (
    SELECT oid, nspowner AS owner, coalesce(nspacl, acldefault('n', nspowner)) AS acl FROM pg_namespace WHERE nspname = 'public'
  ), creation AS (
    SELECT grantee, grantor, grantor = owner AS by_owner FROM schema, aclexplode(acl) WHERE privilege_type = 'CREATE'
  ), database AS (
    SELECT oid, datdba AS owner FROM pg_database WHERE datname = current_database()
  ), relation AS (
    SELECT pg_class.oid, relname, relowner AS owner FROM pg_class JOIN schema ON schema.oid = relnamespace
    -- A sequence runs nothing, but a view in its place does.
    WHERE relname IN (${RELATIONS}) AND relkind <> 'S'
  ), sole_owner AS (
    SELECT min(owner) AS oid FROM relation HAVING count(DISTINCT owner) = 1
  ), session AS (
    SELECT oid,
           EXISTS (SELECT FROM creation WHERE grantee <> 0 AND pg_has_role(pg_roles.oid, grantee, 'USAGE')) AS may_create,
           EXISTS (SELECT FROM database WHERE pg_has_role(pg_roles.oid, owner, 'USAGE'))
             OR EXISTS (SELECT FROM schema WHERE pg_has_role(pg_roles.oid, owner, 'USAGE')) AS is_owner
    FROM pg_roles WHERE rolname = session_user AND NOT rolsuper
  ), trusted AS MATERIALIZED (
    SELECT oid, true AS to_create FROM pg_roles WHERE rolname = session_user
    UNION SELECT owner, true FROM database
    UNION SELECT owner, true FROM schema
    UNION SELECT owner, true FROM relation, session
    WHERE NOT is_owner AND pg_has_role(session.oid, owner, 'USAGE') AND owner IN (SELECT grantee FROM creation)
    UNION SELECT sole_owner.oid, false FROM sole_owner, session WHERE ${asService} AND NOT is_owner AND NOT may_create
  ), role AS (
    SELECT oid, rolname, rolcanlogin,
           (SELECT bool_or(to_create) FROM trusted WHERE pg_has_role(pg_roles.oid, trusted.oid, 'MEMBER')) AS to_create
    FROM pg_roles WHERE NOT rolsuper
  ), other AS (
    SELECT oid, rolname FROM role WHERE to_create IS NULL
  ), creator AS (
    SELECT rolname, grantee, grantor, by_owner FROM role, database, creation
    WHERE rolcanlogin AND has_database_privilege(role.oid, database.oid, 'CONNECT')
      -- What everybody may do, the owner of the tables may do only until the right of everybody is revoked.
      AND CASE grantee WHEN 0 THEN to_create IS NOT TRUE ELSE to_create IS NULL AND pg_has_role(role.oid, grantee, 'MEMBER') END
  ), action AS (
    SELECT 'pg_trigger'::regclass AS classid, pg_trigger.oid AS objid, format('TRIGGER %I ON %s', tgname, tgrelid::regclass) AS name
    FROM pg_trigger JOIN relation ON relation.oid = tgrelid AND owner NOT IN (SELECT oid FROM other)
    UNION ALL
    SELECT 'pg_rewrite'::regclass, pg_rewrite.oid, format('RULE %I ON %s', rulename, ev_class::regclass)
    FROM pg_rewrite JOIN relation ON relation.oid = ev_class AND owner NOT IN (SELECT oid FROM other)
  ), operator AS MATERIALIZED (
    SELECT pg_operator.oid, oprname, oprowner FROM pg_operator JOIN schema ON schema.oid = oprnamespace
  ), routine AS MATERIALIZED (
    SELECT pg_proc.oid, proname, proowner FROM pg_proc JOIN schema ON schema.oid = pronamespace
  ), object AS (
    SELECT 'OPERATOR ' || operator.oid::regoperator AS name, 'DROP OPERATOR ' || operator.oid::regoperator AS statement
    FROM operator JOIN other ON other.oid = oprowner
    WHERE oprname IN (SELECT oprname FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace)
    UNION ALL
    SELECT 'ROUTINE ' || routine.oid::regprocedure, 'DROP ROUTINE ' || routine.oid::regprocedure
    FROM routine JOIN other ON other.oid = proowner
    WHERE proname IN (
      SELECT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
      UNION ALL
      SELECT proname FROM routine WHERE proowner NOT IN (SELECT oid FROM other)
    )
    UNION ALL
    SELECT upper(type) || ' ' || relation.oid::regclass,
           format('ALTER TABLE %s RENAME TO %I', relation.oid::regclass, relname || '_of_' || rolname)
    FROM relation JOIN other ON other.oid = owner CROSS JOIN LATERAL pg_identify_object('pg_class'::regclass, relation.oid, 0)
    UNION ALL
    -- The function of a trigger, or one in a condition or an action, also behind an operator.
    SELECT DISTINCT 'a function in ' || action.name, 'DROP ' || action.name
    FROM action JOIN pg_depend USING (classid, objid)
      LEFT JOIN pg_operator ON refclassid = 'pg_operator'::regclass AND pg_operator.oid = refobjid
      JOIN pg_proc ON pg_proc.oid = CASE refclassid WHEN 'pg_proc'::regclass THEN refobjid ELSE oprcode END
      JOIN other ON other.oid = proowner
  )
  SELECT ARRAY(SELECT DISTINCT rolname::text FROM creator ORDER BY 1) AS logins,
         ARRAY(
           SELECT DISTINCT jsonb_build_object(
             'grantee', CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END,
             'grantor', CASE WHEN NOT by_owner THEN grantor::regrole::text END,
             'passedOn', grantee IN (SELECT grantor FROM creation)
           ) FROM creator ORDER BY 1
         ) AS grants,
         (SELECT coalesce(json_agg(object ORDER BY name), '[]') FROM object) AS objects,
         (SELECT quote_ident(rolname) FROM pg_roles WHERE NOT rolsuper AND oid = coalesce(
           (SELECT oid FROM sole_owner JOIN role USING (oid) WHERE to_create), (SELECT owner FROM database)
         )) AS owner,
         (SELECT rolname::text FROM other JOIN sole_owner USING (oid)) AS untrusted`;

/**
 * Finds out whether others could have code of theirs run with the privileges of this login. Uses no operator of the schema itself.
 *
 * @param {pg.ClientBase} db
 * @param {{ asService?: boolean }} [options] whether this login may be that of the service
 * @returns {Promise<{ message: string, remedy: string } | undefined>} what they may do or own, and the statements that end it
 */
export async function othersInSchema(db, { asService = false } = {}) {
  // One result for each statement; the type of `pg` is that of a single one.
  const results = /** @type {pg.QueryResult<Others>[]} */ (
    /** @type {unknown} */ (
      await db.query(`BEGIN; SET LOCAL search_path = pg_catalog; ${selectOthers(asService)}; COMMIT`)
    )
  );
  const found = results[2]?.rows[0];
  if (found === undefined || found.logins.length + found.objects.length === 0) return undefined;
  const { logins, grants, objects, owner, untrusted } = found;
  const quoted = logins.map((login) => `"${login}"`).join(', ');
  return {
    message: [
      ...(logins.length > 0 ? [`${quoted} may create in the schema public`] : []),
      ...(objects.length > 0 ? [`other roles own ${objects.map(({ name }) => name).join(', ')}`] : []),
    ].join(', and '),
    remedy: [
      ...(untrusted === null
        ? []
        : [`If "${untrusted}" is the rightful owner of the tables, use a login with its privileges. Otherwise:`]),
      'Run as a superuser, or as the owner of the schema:',
      // Who had the right as everybody has it keeps it.
      ...(owner !== null && grants.some(({ grantee }) => grantee === 'PUBLIC')
        ? [`GRANT CREATE ON SCHEMA public TO ${owner};`]
        : []),
      ...grants.map(({ grantee, grantor, passedOn }) => {
        const revoke = `REVOKE CREATE ON SCHEMA public FROM ${grantee}${passedOn ? ' CASCADE' : ''};`;
        return grantor === null ? revoke : `SET ROLE ${grantor}; ${revoke} RESET ROLE;`;
      }),
      // They may be of use to somebody.
      ...(objects.length > 0
        ? [
            ...objects.map(({ statement }) => `${statement};`),
            'Or give them to the owner of the tables, if you trust them.',
          ]
        : []),
    ].join(' '),
  };
}

/**
 * @param {pg.Client} db
 * @throws {Error} when others could have code of theirs run with the privileges of this login
 */
export async function rejectOthersInSchema(db) {
  const others = await othersInSchema(db);
  if (others !== undefined) {
    throw new Error(
      `Others could run code with the privileges of "${db.user}" in this database: ${others.message}. ${others.remedy}`,
    );
  }
}
