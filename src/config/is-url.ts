import { isDecodable } from '../common/is-decodable.js';

/** @param protocols with their colons */
export function isUrl(text: string, protocols: readonly string[]): boolean {
  // Clients decode the user and the password.
  return URL.canParse(text) && protocols.includes(new URL(text).protocol) && isDecodable(text);
}
