import { usesOf } from './promql.js';

describe('usesOf', () => {
  it('returns the metrics with their label matchers, and the grouping labels', () => {
    const query =
      'histogram_quantile(0.99, sum by (le, route) (rate(http_seconds_bucket{job="a",route!~"/h/{id}.*"}[$__rate_interval]))) > 0.5 or vector(0)';
    expect(usesOf(query)).toEqual({
      selectors: [
        {
          metric: 'http_seconds_bucket',
          matchers: [
            { label: 'job', operator: '=', value: 'a' },
            { label: 'route', operator: '!~', value: '/h/{id}.*' },
          ],
        },
      ],
      groupingLabels: ['le', 'route'],
    });
  });

  it.each([
    ['up', ['up']],
    ['absent(up{job="x"} == 1)', ['up']],
    ['sum(a_total) / sum(b_total{}) > 400e6', ['a_total', 'b_total']],
    ['rate(a_total[5m] offset 1h) and on (instance) b', ['a_total', 'b']],
  ])('finds in %s the metrics %j', (query, metrics) => {
    expect(usesOf(query).selectors.map(({ metric }) => metric)).toEqual(metrics);
  });
});
