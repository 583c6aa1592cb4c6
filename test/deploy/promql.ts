/** The metrics and labels that a PromQL expression uses. */
export interface QueryUse {
  /** Metrics with the matchers in their braces. */
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
/** A metric with optional matchers. A name before a parenthesis is a function. */
const SELECTOR = /(?<![\w.$])([a-zA-Z_:][\w:]*)\b(?!\s*\()(?:\s*\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?/g;
const WORDS = new Set(['and', 'or', 'unless', 'bool', 'offset', 'inf', 'nan']);

/** Extracts the metrics and labels of a PromQL expression without validating it. */
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
