import type { Check } from '../check.js';
import { MIGRATIONS } from '../expected-migrations.js';
import { ifKnown, type SchemaFacts } from '../facts.js';
import { error, type Finding, ok, warning } from '../finding.js';
import { list } from '../wording.js';

const APPLY = 'Apply the migrations: "docker compose up migrate", or "npm run db:migrate" with the URL of the owner.';

export const migrations: Check = {
  name: 'migrations',
  evaluate: ({ schema }) => ifKnown(schema, evaluate),
};

function evaluate({ applied, failed, withoutObjects }: SchemaFacts): Finding {
  const expected = Object.keys(MIGRATIONS);
  if (failed.length > 0) {
    return error(
      `failed: ${list(failed)}`,
      'Read the log of the migration, undo what it left, and run "prisma migrate resolve --rolled-back NAME"; then apply it.',
    );
  }
  const missing = expected.filter((name) => applied?.includes(name) === false);
  if (missing.length > 0 || (applied === undefined && withoutObjects.length > 0)) {
    return error(`missing: ${list(missing.length > 0 ? missing : withoutObjects)}`, APPLY);
  }
  if (withoutObjects.length > 0) {
    return error(
      `recorded, but its objects are missing: ${list(withoutObjects)}`,
      'Somebody has dropped them, or a backup was restored in part. Restore a complete backup.',
    );
  }
  const newer = applied?.filter((name) => !expected.includes(name)) ?? [];
  if (newer.length > 0) {
    return warning(
      `all applied, and ${newer.length} that this version does not know`,
      'A newer version has migrated the database. Update this one; it works meanwhile if it is the previous release.',
      newer,
    );
  }
  return ok(`all ${expected.length} applied${applied === undefined ? ', as far as this role can see' : ''}`);
}
