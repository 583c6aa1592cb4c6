import { rmSync } from 'node:fs';

export default async function globalTeardown() {
  const { server, folder } = globalThis.testPostgres;
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
