import type { Check } from '../check.js';
import { SERVICE_PRIVILEGES, SERVICE_ROLE } from '../expected-privileges.js';
import { ifKnown, type RoleFacts, type TablePrivilege } from '../facts.js';
import { error, type Finding, ok, warning } from '../finding.js';
import { list } from '../wording.js';

export const role: Check = {
  name: 'role',
  evaluate: ({ role: facts }) => ifKnown(facts, evaluate),
};

function evaluate(facts: RoleFacts): Finding {
  const { role: name, isOwner, isEmbedded, isMember, examined } = facts;
  if (isEmbedded) {
    return ok(`"${name}" owns the embedded database`);
  }
  const missing = missingOf(facts);
  if (examined === undefined) {
    return warning(
      `"${name}" is the owner, and there is no role ${SERVICE_ROLE}`,
      `Have an administrator create the role ${SERVICE_ROLE} and apply the grants of the migrations to it; let the service log in as a member.`,
    );
  }
  if (missing.length > 0) {
    const isMembershipMissing = !isMember && examined === name;
    return error(
      `"${examined}" lacks ${list(missing)}`,
      isMembershipMissing
        ? `Run as the owner: GRANT ${SERVICE_ROLE} TO "${name}".`
        : `Run as the owner: ${missing.map((grant) => `GRANT ${grant} TO ${SERVICE_ROLE}`).join('; ')}.`,
      missing,
    );
  }
  const superfluous = superfluousOf(facts);
  if (superfluous.length > 0) {
    return warning(
      `"${examined}" has more than it needs: ${list(superfluous)}`,
      `Revoke what the service does not need from "${examined}", from the roles that it is a member of, and from PUBLIC.`,
      superfluous,
    );
  }
  return isOwner
    ? warning(
        `"${name}" owns the tables or is a superuser`,
        `Run this command with the DATABASE_URL of the service, whose login should be a member of ${SERVICE_ROLE} only.`,
      )
    : ok(`"${name}" has what the service needs and nothing else`);
}

function missingOf({ tables, usesSchema }: RoleFacts): string[] {
  const grants = tables.flatMap(({ table, privilege, whole, columns }) => {
    const expected = SERVICE_PRIVILEGES[table]?.[privilege];
    if (expected === undefined || whole) {
      return [];
    }
    return expected === 'table'
      ? [grantOf(table, privilege)]
      : grantOfColumns(
          table,
          privilege,
          expected.filter((column) => !columns.includes(column)),
        );
  });
  return usesSchema ? grants : ['USAGE ON SCHEMA public', ...grants];
}

function superfluousOf({ tables, createsInSchema, attributes, memberships }: RoleFacts): string[] {
  return [
    ...attributes,
    ...memberships.map((name) => `membership in ${name}`),
    ...(createsInSchema ? ['CREATE ON SCHEMA public'] : []),
    ...tables.flatMap(superfluousOn),
  ];
}

function superfluousOn({ table, privilege, whole, columns }: TablePrivilege): string[] {
  const expected = SERVICE_PRIVILEGES[table]?.[privilege];
  if (expected === 'table') {
    return [];
  }
  return whole
    ? [grantOf(table, privilege)]
    : grantOfColumns(
        table,
        privilege,
        columns.filter((column) => expected?.includes(column) !== true),
      );
}

function grantOf(table: string, privilege: string): string {
  return `${privilege} ON ${table}`;
}

function grantOfColumns(table: string, privilege: string, columns: readonly string[]): string[] {
  return columns.length === 0 ? [] : [`${privilege} (${columns.join(', ')}) ON ${table}`];
}
