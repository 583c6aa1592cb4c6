import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clientsOf } from '../../../src/database/open-client.js';
import { useTemporaryFolder } from '../../helpers/temporary-folder.js';

const URL_OF_SERVER = 'postgresql://user@localhost/petstore';

/** What a client has for TLS; its type does not tell. */
const sslOf = (Client: ReturnType<typeof clientsOf>): unknown => (new Client() as unknown as { ssl: unknown }).ssl;

describe('clients of a pool', () => {
  const folder = useTemporaryFolder('client');
  const file = join(folder, 'ca.crt');

  it('read the files of the URL, and use what was read before while one is missing', () => {
    writeFileSync(file, 'one');
    const Client = clientsOf(`${URL_OF_SERVER}?sslmode=verify-full&sslrootcert=${file}`);
    expect(sslOf(Client)).toMatchObject({ ca: 'one' });
    rmSync(file);
    expect(sslOf(Client)).toMatchObject({ ca: 'one' });
    writeFileSync(file, 'two');
    expect(sslOf(Client)).toMatchObject({ ca: 'two' });
  });

  it('use what was read before while the files do not fit together', () => {
    writeFileSync(file, '');
    const Client = clientsOf(`${URL_OF_SERVER}?sslmode=verify-full&sslkey=${file}`);
    writeFileSync(file, 'half a key');
    expect(sslOf(Client)).toMatchObject({ key: '' });
    expect(() => clientsOf(`${URL_OF_SERVER}?sslmode=verify-full&sslkey=${file}`)).toThrow(/DECODER|PEM/);
  });

  it.each(['99999', 'abc', '-1'])('are not made for the port %s', (port) => {
    expect(() => clientsOf(`${URL_OF_SERVER}?port=${port}`)).toThrow(`Invalid port: ${port}`);
  });

  it.each([
    ['ssl=no-verify', { rejectUnauthorized: false }],
    ['ssl=true', true],
    ['sslmode=disable', false],
    ['application_name=x', false],
  ])('use TLS as pg does with %s', (parameters, ssl) => {
    expect(sslOf(clientsOf(`${URL_OF_SERVER}?${parameters}`))).toEqual(ssl);
  });
});
