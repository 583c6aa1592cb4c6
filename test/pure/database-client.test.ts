import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clientsOf } from '../../src/database/open-client.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const folder = useTemporaryFolder('client');
const file = join(folder, 'ca.crt');
const urlWith = (parameters: string): string =>
  `postgresql://user@localhost/petstore?sslmode=verify-full&${parameters}`;

/** What a client has for TLS; its type does not tell. */
const sslOf = (Client: ReturnType<typeof clientsOf>): unknown => (new Client() as unknown as { ssl: unknown }).ssl;

// An error here would end the process, because the pool makes clients in handlers of events.
it('clients read a certificate file again when it is replaced, and use its last content while it is missing', () => {
  writeFileSync(file, 'one');
  const Client = clientsOf(urlWith(`sslrootcert=${file}`));
  expect(sslOf(Client)).toMatchObject({ ca: 'one' });
  rmSync(file);
  expect(sslOf(Client)).toMatchObject({ ca: 'one' });
  writeFileSync(file, 'two');
  expect(sslOf(Client)).toMatchObject({ ca: 'two' });
});

it('an invalid key is an error at the start, and later clients use the last valid one', () => {
  writeFileSync(file, '');
  const Client = clientsOf(urlWith(`sslkey=${file}`));
  writeFileSync(file, 'half a key');
  expect(sslOf(Client)).toMatchObject({ key: '' });
  expect(() => clientsOf(urlWith(`sslkey=${file}`))).toThrow(/DECODER|PEM/);
});
