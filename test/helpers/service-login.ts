import { randomBytes } from 'node:crypto';
import type { TestDatabase } from './test-database.js';

/** A login role that is a member of `petstore_service`, as in a deployment. */
export interface ServiceLogin {
  readonly role: string;
  readonly url: string;
  drop(): Promise<void>;
}

/** @param membership the role to be a member of, as SQL; by default that of the service */
export async function createServiceLogin(
  database: TestDatabase,
  membership = 'IN ROLE petstore_service',
): Promise<ServiceLogin> {
  const role = `test_service_${randomBytes(8).toString('hex')}`;
  await database.db.query(`CREATE ROLE ${role} LOGIN PASSWORD 'test' ${membership}`);
  const url = new URL(database.url);
  url.username = role;
  url.password = 'test';
  return {
    role,
    url: url.href,
    drop: async () => {
      await database.db.query(`DROP OWNED BY ${role}`);
      await database.db.query(`DROP ROLE ${role}`);
    },
  };
}
