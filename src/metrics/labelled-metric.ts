import type { Counter, Histogram, Metric, Registry } from 'prom-client';

type LabelValue = string | number;

/**
 * A labelled metric for what every request does. Each combination of label values is a metric of its own, found by one
 * look-up; prom-client itself validates and joins the labels at every observation, which costs five times as much.
 */
export class LabelledMetric<M extends Counter | Histogram> {
  readonly name: string;
  readonly #parent: M;
  /** By the values of their labels. */
  readonly #children = new Map<string, { readonly labels: Record<string, LabelValue>; readonly metric: M }>();

  /** @param create returns a new metric without labels, in no registry */
  constructor(
    private readonly create: () => M,
    private readonly labelNames: readonly string[],
    registry: Registry,
  ) {
    this.#parent = create();
    this.name = (this.#parent as unknown as { name: string }).name;
    // The registry uses only `name` and `get`; its type lists prom-client's own classes.
    registry.registerMetric(this as unknown as Metric);
  }

  /** @param values in the order of the names, from small sets, without commas; an empty one leaves its label out */
  labels(...values: LabelValue[]): M {
    const key = values.join();
    let child = this.#children.get(key);
    if (child === undefined) {
      const named = this.labelNames.map((name, index) => [name, values[index] ?? ''] as const);
      const labels = Object.fromEntries(named.filter(([, value]) => value !== ''));
      child = { labels, metric: this.create() };
      this.#children.set(key, child);
    }
    return child.metric;
  }

  async get(): Promise<object> {
    const children = await Promise.all(
      Array.from(this.#children.values(), async ({ labels, metric }) => {
        const { values } = await metric.get();
        return values.map((value) => ({ ...value, labels: { ...value.labels, ...labels } }));
      }),
    );
    return { ...(await this.#parent.get()), values: children.flat() };
  }
}
