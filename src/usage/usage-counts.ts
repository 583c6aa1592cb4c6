/** All counts at zero. */
export const NO_USAGE = Object.freeze({
  /** Decisions of the limiter: admitted, over a limit, and during a ban. */
  admitted: 0,
  rejected: 0,
  banned: 0,
  /** Responses 200 and 304 to GET of the list. */
  lists: 0,
  /** Orders cancelled. */
  cancels: 0,
  /** Bytes of list bodies as they were sent, after compression. */
  listBytes: 0,
});

/** What a key did. Integers. */
export type UsageCounts = Record<keyof typeof NO_USAGE, number>;

/** What a key did since it was last written. */
export interface UsageRow extends UsageCounts {
  readonly keyId: string;
}
