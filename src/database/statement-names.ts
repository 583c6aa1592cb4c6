const names = new Map<string, string>();

/** How Prisma's models name columns, and no statement of ours. */
const OF_MODEL = '"public"."';

/**
 * The name of a statement, which stays parsed and planned for the connection. The texts are few: constants in our code, with values
 * as parameters. Statements of models stay unnamed (the empty name): their results have the types of the columns, and a migration
 * that alters one would make them fail on every open connection.
 */
export function statementNameOf(sql: string): string {
  if (sql.includes(OF_MODEL)) {
    return '';
  }
  let name = names.get(sql);
  if (name === undefined) {
    name = `petstore_${names.size}`;
    names.set(sql, name);
  }
  return name;
}
