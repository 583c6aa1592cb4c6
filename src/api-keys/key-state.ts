export type KeyState = 'active' | 'expired' | 'revoked';

/**
 * Whether a key has expired; one without a date never does. A date of PostgreSQL outside the years of JavaScript is an `Invalid Date`,
 * which compares as false: such a key is expired, and not valid for ever.
 */
export function isExpired({ expiresAt }: { readonly expiresAt: Date | null }, nowMs: number): boolean {
  return expiresAt !== null && !(expiresAt.getTime() > nowMs);
}

export function stateOf(key: { readonly revokedAt: Date | null; readonly expiresAt: Date | null }): KeyState {
  if (key.revokedAt !== null) {
    return 'revoked';
  }
  return isExpired(key, Date.now()) ? 'expired' : 'active';
}
