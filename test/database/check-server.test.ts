import { serverProblem } from '../../src/database/check-server.js';
import { useTestDatabase } from '../helpers/test-database.js';

const database = useTestDatabase();

describe('the check of the server at start', () => {
  it.each(['', '?sslmode=disable'])('accepts a server without TLS when the URL ends with "%s"', async (parameters) => {
    expect(await serverProblem(database.url + parameters)).toBeUndefined();
  });

  it.each(['prefer', 'require', 'verify-full'])(
    'ends the start with sslmode=%s when the server has no TLS',
    async (mode) => {
      expect(await serverProblem(`${database.url}?sslmode=${mode}`)).toEqual({
        message:
          'DATABASE_URL must point to a server with which TLS can be established (got one that does not support it)',
        isFatal: true,
      });
    },
  );
});
