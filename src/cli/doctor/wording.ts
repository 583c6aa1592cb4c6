const LISTED_MAX = 3;

/** Joins names; of many names, the first ones and the number of the others. */
export function list(names: readonly string[]): string {
  const listed = names.slice(0, names.length > LISTED_MAX + 1 ? LISTED_MAX : names.length);
  const others = names.length - listed.length;
  return `${listed.join(', ')}${others === 0 ? '' : ` and ${others} more`}`;
}
