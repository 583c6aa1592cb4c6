/** A number with thousands separators: `1,000,000`. */
export function count(value: number): string {
  return value.toLocaleString('en');
}

/** A number in at most five characters: `999`, `8.7K`, `123K`, `1.2M`. */
export function shortCount(value: number): string {
  return SHORT.format(value);
}

const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

/** Bytes in decimal units: `0`, `873 kB`, `1.25 GB`. */
export function shortBytes(bytes: number): string {
  const short = shortCount(bytes);
  const unit = BYTE_UNITS[short.at(-1) ?? ''];
  return unit === undefined ? short : `${short.slice(0, -1)} ${unit}`;
}

const BYTE_UNITS: Readonly<Record<string, string>> = { K: 'kB', M: 'MB', B: 'GB', T: 'TB' };

/** Duration and rate of a load; the fields of `--json`. */
export interface Pace {
  /** With millisecond precision. */
  readonly seconds: number;
  readonly ordersPerSecond: number;
}

export function paceOf(orders: number, milliseconds: number): Pace {
  // At least one millisecond, so that the rate is finite.
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

/** A duration in its largest unit, rounded down: `3 d`, `5 h`, `12 min`, `40 s`. */
export function span(milliseconds: number): string {
  const [unit, size] = UNITS.find(([, unitMs]) => milliseconds >= unitMs) ?? ['s', 1_000];
  return `${Math.floor(milliseconds / size)} ${unit}`;
}
