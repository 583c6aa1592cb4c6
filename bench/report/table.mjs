import { formatted, significant } from './format.mjs';
import { markdown } from './markdown.mjs';

/**
 * One line of the report: what was measured, for which contestants, and the target for the ratio or the value.
 * @typedef {object} Row
 * @property {string} what
 * @property {'ms' | 'mib' | 'perSecond' | 'seconds' | 'micros' | 'share'} unit
 * @property {{value?: number, failure?: string} | undefined} ours
 * @property {string} [against]
 * @property {{value?: number, failure?: string} | undefined} [other] theirs
 * @property {'ours / theirs' | 'theirs / ours'} [ratio]
 * @property {boolean} [isPromise] whether the target is promised to operators
 * @property {{text: string, met: (number: number) => boolean}} [target] of the ratio; without one, of our value
 */

/** @param {Row[]} rows */
export function markdownTable(rows) {
  return markdown(['measured', 'this service', 'compared with', 'theirs', 'ratio', 'target', 'met'], rows.map(cells));
}

/**
 * Whether the promised ratios that were measured are held, one in a line.
 * @param {Row[]} rows
 */
export function promises(rows) {
  return rows
    .filter(({ isPromise, target }) => isPromise === true && target !== undefined)
    .map(({ what, ours, against, other, ratio, target }) => {
      const number = ratioOf(ours, other, ratio);
      const verdict =
        number === undefined ? 'not measured' : `${significant(number)}, ${target.met(number) ? 'held' : 'NOT HELD'}`;
      return `Promised: ${what}, at most ${target.text.replace('≤ ', '')} of ${against}: ${verdict}.`;
    });
}

function cells({ what, unit, ours, against, other, ratio, target }) {
  const number = ratio === undefined ? ours?.value : ratioOf(ours, other, ratio);
  return [
    what,
    cell(ours, unit),
    against ?? '',
    against === undefined ? '' : cell(other, unit),
    ratio === undefined || number === undefined ? '' : `${significant(number)} (${ratio})`,
    target?.text ?? '',
    target === undefined ? '' : verdict(number, [ours, other], target),
  ];
}

function cell(measured, unit) {
  if (measured === undefined) {
    return 'not measured';
  }
  return measured.failure === undefined ? formatted(measured.value, unit) : `invalid: ${measured.failure}`;
}

function ratioOf(ours, other, ratio) {
  if (ours?.value === undefined || other?.value === undefined) {
    return undefined;
  }
  return ratio === 'ours / theirs' ? ours.value / other.value : other.value / ours.value;
}

function verdict(number, sources, target) {
  if (number === undefined) {
    return sources.some((source) => source?.failure !== undefined) ? 'invalid' : '';
  }
  return target.met(number) ? 'yes' : '**no**';
}

export const atLeast = (bound) => ({ text: `≥ ${bound}`, met: (number) => number >= bound });
export const atMost = (bound) => ({ text: `≤ ${bound}`, met: (number) => number <= bound });
export const above = (bound) => ({ text: `> ${bound}`, met: (number) => number > bound });
export const below = (bound) => ({ text: `< ${bound}`, met: (number) => number < bound });
/** @param bound in the unit of the value; `text` is the bound for the reader */
export const valueAtMost = (bound, text) => ({ text: `≤ ${text}`, met: (number) => number <= bound });
