import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { describeIf } from '../helpers/describe-if.js';
import { otherPostgres } from '../helpers/other-postgres.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const programs = otherPostgres(13);

describeIf(programs !== undefined, 'npm run test:matrix -- --only postgres-13')('PostgreSQL 13', () => {
  const folder = useTemporaryFolder('postgres-13');

  it('is rejected at start', async () => {
    const server = await PostgresServer.start({ folder, settings: { fsync: 'off' }, programs });
    try {
      await expect(ServiceProcess.start({ DATABASE_URL: server.url('postgres') })).rejects.toThrow(
        /exited with 1: .*\n.*DATABASE_URL must point to PostgreSQL 14 or later \(got 13\.\d+\)/,
      );
    } finally {
      await server.stop();
    }
  });
});
