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

/** The owner of test databases. */
const OWNER = 'petstore';
/** A login that tests share and none changes. */
const SHARED_ROLE = 'test_service';

/** A URL with a login that is a member of `petstore_service` in the place of the owner's; any other login stays. */
export async function serviceUrl({ db }: TestDatabase, url: string): Promise<string> {
  const login = new URL(url);
  if (login.username !== OWNER) {
    return url;
  }
  await db.query(`
    DO $$ BEGIN
      CREATE ROLE ${SHARED_ROLE} LOGIN PASSWORD 'test' IN ROLE petstore_service;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
    END $$`);
  login.username = SHARED_ROLE;
  login.password = 'test';
  return login.href;
}
