/** A number as a person reads it: `1,000,000`. */
export function count(value: number): string {
  return value.toLocaleString('en');
}

/** How long something took and how fast that was, for people and for `--json`. */
export interface Pace {
  /** To the millisecond. */
  readonly seconds: number;
  readonly ordersPerSecond: number;
}

export function paceOf(orders: number, milliseconds: number): Pace {
  // At least one millisecond, so that the pace is a number.
  const seconds = Math.max(1, Math.round(milliseconds)) / 1_000;
  return { seconds, ordersPerSecond: Math.round(orders / seconds) };
}

export function describePace({ seconds, ordersPerSecond }: Pace): string {
  return `${seconds.toFixed(1)} s, ${count(ordersPerSecond)} orders/s`;
}

const UNITS: readonly (readonly [unit: string, milliseconds: number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
];

/** A span of time in its largest unit, rounded down: `3 d`, `5 h`, `12 min`, `40 s`. */
export function span(milliseconds: number): string {
  const [unit, size] = UNITS.find(([, unitMs]) => milliseconds >= unitMs) ?? ['s', 1_000];
  return `${Math.floor(milliseconds / size)} ${unit}`;
}
