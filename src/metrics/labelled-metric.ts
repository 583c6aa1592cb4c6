import type { Counter, Histogram, Metric, Registry } from 'prom-client';

type LabelValue = string | number;

/** A step from one label value to the next; the metric is at the last one. */
class Step<M> extends Map<LabelValue, Step<M>> {
  metric: M | undefined;
}

/**
 * A labelled metric for what every request does. Each combination of label values is a metric of its own, found by one
 * look-up per label; prom-client itself validates and joins the labels at every observation, which costs five times as much.
 */
export class LabelledMetric<M extends Counter | Histogram> {
  readonly name: string;
  readonly #parent: M;
  readonly #root = new Step<M>();
  readonly #children: { readonly labels: Record<string, LabelValue>; readonly metric: M }[] = [];

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

  /** @param values in the order of the names, from small sets; an empty one leaves its label out */
  labels(...values: LabelValue[]): M {
    let step = this.#root;
    for (const value of values) {
      let next = step.get(value);
      if (next === undefined) {
        next = new Step();
        step.set(value, next);
      }
      step = next;
    }
    return (step.metric ??= this.#addChild(values));
  }

  async get(): Promise<object> {
    const children = await Promise.all(
      this.#children.map(async ({ labels, metric }) => {
        const { values } = await metric.get();
        return values.map((value) => ({ ...value, labels: { ...value.labels, ...labels } }));
      }),
    );
    return { ...(await this.#parent.get()), values: children.flat() };
  }

  #addChild(values: readonly LabelValue[]): M {
    const named = this.labelNames.map((name, index) => [name, values[index] ?? ''] as const);
    const metric = this.create();
    this.#children.push({ labels: Object.fromEntries(named.filter(([, value]) => value !== '')), metric });
    return metric;
  }
}
