/** What a PromQL expression reads. */
export interface QueryUse {
  /** Label matchers by metric: what stands between the braces after a metric's name. */
  readonly selectors: readonly { readonly metric: string; readonly matchers: readonly LabelMatcher[] }[];
  /** Labels that the expression groups or joins by. */
  readonly groupingLabels: readonly string[];
}

export interface LabelMatcher {
  readonly label: string;
  readonly operator: '=' | '!=' | '=~' | '!~';
  readonly value: string;
}

const STRING = /"((?:[^"\\]|\\.)*)"/;
const MATCHER = new RegExp(`([a-zA-Z_]\\w*)\\s*(=~|!~|!=|=)\\s*${STRING.source}`, 'g');
const GROUPING = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g;
const RANGE = /\[[^\]]*\]/g;
/** A name with a selection or without; a name before a parenthesis is a function. */
const SELECTOR = /(?<![\w.$])([a-zA-Z_:][\w:]*)\b(?!\s*\()(?:\s*\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?/g;
const WORDS = new Set(['and', 'or', 'unless', 'bool', 'offset', 'inf', 'nan']);

/** Reads from a PromQL expression which metrics and labels it uses. Enough for dashboards; no validation. */
export function usesOf(expression: string): QueryUse {
  const groupingLabels = [...expression.matchAll(GROUPING)].flatMap(([, labels = '']) =>
    labels.split(',').flatMap((label) => (label.trim() === '' ? [] : [label.trim()])),
  );
  const withoutGroupings = expression.replace(GROUPING, ' ').replace(RANGE, ' ');
  const selectors = [...withoutGroupings.matchAll(SELECTOR)]
    .filter(([, name = '']) => !WORDS.has(name.toLowerCase()))
    .map(([, metric = '', selection = '']) => ({ metric, matchers: matchersOf(selection) }));
  return { selectors, groupingLabels };
}

function matchersOf(selection: string): LabelMatcher[] {
  return [...selection.matchAll(MATCHER)].map(([, label = '', operator = '', value = '']) => ({
    label,
    operator: operator as LabelMatcher['operator'],
    value,
  }));
}
