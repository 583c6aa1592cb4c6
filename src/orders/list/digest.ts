import { hash } from 'node:crypto';

/** 22 characters of base64 hold 132 bits. */
const LENGTH = 22;

/** @returns a short name for a text, from its SHA-256, that remembers the last one: most requests are about the same version */
export function digester(): (text: string) => string {
  let last: { readonly text: string; readonly digest: string } | undefined;
  return (text) => {
    if (last?.text !== text) {
      last = { text, digest: hash('sha256', text, 'base64url').slice(0, LENGTH) };
    }
    return last.digest;
  };
}
