import { bindingWindow, type Verdict, type WindowVerdict } from './decision.js';

/** The headers of every verdict. */
export const LIMIT_HEADER_NAMES = [
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'RateLimit-Policy',
  'RateLimit',
] as const;

/** The headers of a rejection. */
export const REJECTION_HEADER_NAMES = [...LIMIT_HEADER_NAMES, 'Retry-After'] as const;

type RateLimitHeader = readonly [name: string, value: string];

/**
 * The rate-limit headers of a response: the published triple for the binding window, and both windows in the form of
 * draft-ietf-httpapi-ratelimit-headers. A rejection adds `Retry-After` (RFC 9110 section 10.2.3): whole seconds, at
 * least 1, never earlier than the reset.
 */
export function rateLimitHeaders(verdict: Verdict): RateLimitHeader[] {
  const { minute, day, decidedAtMs } = verdict;
  const binding = bindingWindow(verdict);
  const headers: RateLimitHeader[] = [
    ['X-RateLimit-Limit', String(binding.limit)],
    ['X-RateLimit-Remaining', String(remainingIn(binding, verdict))],
    ['X-RateLimit-Reset', String(binding.resetAtSeconds)],
    ['RateLimit-Policy', `"minute";q=${minute.limit};w=60, "day";q=${day.limit};w=86400`],
    ['RateLimit', `"minute";${itemParameters(minute, verdict)}, "day";${itemParameters(day, verdict)}`],
  ];
  if (verdict.outcome !== 'admitted') {
    headers.push(['Retry-After', String(Math.max(1, secondsUntil(binding.resetAtSeconds, decidedAtMs)))]);
  }
  return headers;
}

function itemParameters(window: WindowVerdict, verdict: Verdict): string {
  return `r=${remainingIn(window, verdict)};t=${secondsUntil(window.resetAtSeconds, verdict.decidedAtMs)}`;
}

/** During a ban nothing remains in either window, whatever the counts are. */
function remainingIn({ remaining }: WindowVerdict, { outcome }: Verdict): number {
  return outcome === 'banned' ? 0 : remaining;
}

function secondsUntil(unixSeconds: number, nowMs: number): number {
  return Math.ceil((unixSeconds * 1_000 - nowMs) / 1_000);
}
