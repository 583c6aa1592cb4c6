import { isDecodable } from '../common/is-decodable.js';
import type { Environment } from './environment.js';

/** For the service, the commands and, from prisma.config.ts, the migrations, whose image has few packages. */
export function databaseUrlOf(env: Environment): string | undefined {
  return env.text(
    'DATABASE_URL',
    'a URL with one host like postgresql://user:password@host:5432/database (for a socket, postgresql://user:password@localhost/database?host=/directory), with special characters percent-encoded, no search_path, and no schema other than public',
    isDatabaseUrl,
    'file',
  );
}

/** Every connection sets `search_path` to `public`, so that another schema would be ignored. */
function isDatabaseUrl(text: string): boolean {
  if (!isUrl(text, ['postgresql:', 'postgres:'])) {
    return false;
  }
  const { hostname, pathname, searchParams } = new URL(text);
  const schema = searchParams.get('schema') ?? 'public';
  // libpq would try several hosts in turn; `pg` looks up their list as one name.
  return (
    !hostname.includes(',') &&
    pathname.length > 1 &&
    schema === 'public' &&
    !searchParams.get('options')?.includes('search_path')
  );
}

/** @param protocols with their colons */
export function isUrl(text: string, protocols: readonly string[]): boolean {
  // `URL` ignores line breaks, and clients decode the user and the password.
  return !/\s/.test(text) && URL.canParse(text) && protocols.includes(new URL(text).protocol) && isDecodable(text);
}
