import { randomUUID } from 'node:crypto';
import { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum } from '@prisma/driver-adapter-utils';
import { createDatabase, dropDatabase, siblingUrl } from './database.mjs';
import { rawQueryError, Session } from './session.mjs';
import { describe } from './user-facing-error.mjs';

/** @import { SqlDriverAdapter } from '@prisma/driver-adapter-utils' */
/** @import { FailedScript } from './session.mjs' */

/**
 * Connects the engine to a database, and to a shadow database when it wants to replay the migrations somewhere.
 *
 * @param {string} url
 * @param {object} listeners
 * @param {(session: Session) => void} listeners.onSession hears of every session, of those with a shadow database too
 * @param {(failure: FailedScript) => void} listeners.onScriptError hears of what fails in the database itself
 * @param {(message: string) => void} listeners.onWarning hears the database itself warn
 */
export function createAdapterFactory(url, { onSession, onScriptError, onWarning }) {
  return bindMigrationAwareSqlAdapterFactory({
    provider: 'postgres',
    adapterName: '@prisma/adapter-pg',
    connect() {
      const session = new Session(url, { onWarning });
      onSession(session);
      return session.toAdapter(onScriptError);
    },
    async connectToShadowDb() {
      const shadowUrl = siblingUrl(url, `prisma_migrate_shadow_db_${randomUUID()}`);
      await createDatabase(shadowUrl).catch((error) => {
        throw rawQueryError(`The migrations could not be replayed in a database of their own. ${describe(error)}`);
      });
      const session = new Session(shadowUrl, { afterClose: () => dropDatabase(shadowUrl) });
      onSession(session);
      return session.toAdapter();
    },
  });
}

/**
 * Answers the one question that the engine asks on connecting and refuses any other: comparing schema files with each
 * other, or with nothing, takes no database.
 */
export function createOfflineAdapterFactory() {
  const refuse = () => Promise.reject(new Error('This command needs a database: set DATABASE_URL.'));
  /** @type {SqlDriverAdapter} */
  const adapter = {
    provider: 'postgres',
    adapterName: 'offline',
    queryRaw: () =>
      Promise.resolve({
        columnNames: ['exists', 'version', 'numeric_version'],
        columnTypes: [ColumnTypeEnum.Boolean, ColumnTypeEnum.Text, ColumnTypeEnum.Int32],
        rows: [[true, 'PostgreSQL 18', 180000]],
      }),
    executeRaw: refuse,
    executeScript: refuse,
    startTransaction: refuse,
    dispose: () => Promise.resolve(),
  };
  return bindMigrationAwareSqlAdapterFactory({
    provider: adapter.provider,
    adapterName: adapter.adapterName,
    connect: () => Promise.resolve(adapter),
    connectToShadowDb: refuse,
  });
}
