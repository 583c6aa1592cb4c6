/** The id under which requests without a valid key are counted: the nil UUID (RFC 9562 section 5.9). */
export const ANONYMOUS_ID = '00000000-0000-0000-0000-000000000000';

/** What a key did. Integers. */
export interface UsageCounts {
  /** Decisions of the limiter: admitted, over a limit, and during a ban. */
  admitted: number;
  rejected: number;
  banned: number;
  /** Responses 200 and 304 to GET of the list. */
  lists: number;
  /** Orders cancelled. */
  cancels: number;
  /** Bytes of list bodies as they were sent, after compression. */
  listBytes: number;
}

export const NO_USAGE: Readonly<UsageCounts> = {
  admitted: 0,
  rejected: 0,
  banned: 0,
  lists: 0,
  cancels: 0,
  listBytes: 0,
};

export const COUNTS = Object.keys(NO_USAGE) as (keyof UsageCounts)[];
