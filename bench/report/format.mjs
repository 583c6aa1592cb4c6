const MEBIBYTE = 1_048_576;

/** How values of a unit are written, with three significant digits. */
const FORMATS = {
  ms: (value) => `${significant(value)} ms`,
  mib: (value) => `${significant(value / MEBIBYTE)} MiB`,
  perSecond: (value) => `${Math.round(value).toLocaleString('en')}/s`,
  seconds: (value) => `${significant(value)} s`,
  micros: (value) => `${significant(value)} µs`,
  share: (value) => `${significant(value * 100)} %`,
};

export function formatted(value, unit) {
  return FORMATS[unit](value);
}

export function significant(value) {
  return value === 0 || Math.abs(value) >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}
