import { formatted, significant } from './format.mjs';

/**
 * One line of the report: what was measured, of whom, against whom, and what is asked of the ratio or of the figure.
 * @typedef {object} Row
 * @property {string} what
 * @property {'ms' | 'mib' | 'perSecond' | 'seconds' | 'micros' | 'share'} unit
 * @property {{value?: number, failure?: string} | undefined} figure ours
 * @property {string} [against]
 * @property {{value?: number, failure?: string} | undefined} [other] theirs
 * @property {'ours / theirs' | 'theirs / ours'} [ratio]
 * @property {{text: string, met: (number: number) => boolean}} [target] of the ratio; without one, of the figure
 */

/** @param {Row[]} rows */
export function markdownTable(rows) {
  const lines = rows.map(cells);
  const header = ['measured', 'this service', 'compared with', 'theirs', 'ratio', 'target', 'met'];
  return [header, header.map(() => '---'), ...lines].map((line) => `| ${line.join(' | ')} |`).join('\n');
}

function cells({ what, unit, figure, against, other, ratio, target }) {
  const number = ratio === undefined ? figure?.value : ratioOf(figure, other, ratio);
  return [
    what,
    cell(figure, unit),
    against ?? '',
    against === undefined ? '' : cell(other, unit),
    ratio === undefined || number === undefined ? '' : `${significant(number)} (${ratio})`,
    target?.text ?? '',
    target === undefined ? '' : verdict(number, [figure, other], target),
  ];
}

function cell(measured, unit) {
  if (measured === undefined) {
    return 'not measured';
  }
  return measured.failure === undefined ? formatted(measured.value, unit) : `invalid: ${measured.failure}`;
}

function ratioOf(figure, other, ratio) {
  if (figure?.value === undefined || other?.value === undefined) {
    return undefined;
  }
  return ratio === 'ours / theirs' ? figure.value / other.value : other.value / figure.value;
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
/** @param bound in the unit of the figure; the text says it in the reader's */
export const figureAtMost = (bound, text) => ({ text: `≤ ${text}`, met: (number) => number <= bound });
