import type { Metric, Registry } from 'prom-client';

/** The buckets that the OpenTelemetry semantic conventions advise for `http.server.request.duration`. Seconds. */
const UPPER_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10] as const;

interface Series {
  readonly labels: Readonly<Record<string, string | number>>;
  /** Requests by the first bound that they did not exceed; the last element is for those that exceeded all. */
  readonly counts: number[];
  sum: number;
}

/**
 * How long requests took, as a histogram of a prom-client registry. A histogram of prom-client itself checks and joins the
 * labels at each observation, which was a tenth of what a refusal costs; this one finds its series by one short string.
 */
export class RequestDurations {
  readonly name = 'http_server_request_duration_seconds';
  readonly #series = new Map<string, Series>();

  constructor(registry: Registry) {
    // The registry asks a metric for its name and for `get()`; the type lists prom-client's own classes.
    registry.registerMetric(this as unknown as Metric);
  }

  /** @param seconds from the headers of the request to the end of its answer */
  observe(method: string, route: string, status: number, seconds: number): void {
    const key = `${status} ${method} ${route}`;
    let series = this.#series.get(key);
    if (series === undefined) {
      series = {
        labels: { http_request_method: method, http_route: route, http_response_status_code: status },
        counts: new Array<number>(UPPER_BOUNDS.length + 1).fill(0),
        sum: 0,
      };
      this.#series.set(key, series);
    }
    const bucket = UPPER_BOUNDS.findIndex((bound) => seconds <= bound);
    const index = bucket === -1 ? UPPER_BOUNDS.length : bucket;
    series.counts[index] = (series.counts[index] ?? 0) + 1;
    series.sum += seconds;
  }

  get(): object {
    return {
      name: this.name,
      help: 'How long requests took, from their headers to the end of the answer.',
      type: 'histogram',
      aggregator: 'sum',
      values: [...this.#series.values()].flatMap((series) => this.#valuesOf(series)),
    };
  }

  /** Buckets are cumulative: each counts the requests of those before it too. */
  #valuesOf({ labels, counts, sum }: Series): object[] {
    let total = 0;
    const buckets = [...UPPER_BOUNDS, '+Inf'].map((le, index) => {
      total += counts[index] ?? 0;
      return { metricName: `${this.name}_bucket`, labels: { le, ...labels }, value: total };
    });
    return [
      ...buckets,
      { metricName: `${this.name}_sum`, labels, value: sum },
      { metricName: `${this.name}_count`, labels, value: total },
    ];
  }
}
