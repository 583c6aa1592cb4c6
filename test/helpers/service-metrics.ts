import type { INestApplicationContext } from '@nestjs/common';
import { Metrics } from '../../src/metrics/metrics.js';

/** The metrics of a service, read from its metrics port. */
export class ServiceMetrics {
  private constructor(readonly text: string) {}

  static async scrape(metricsPort: number): Promise<ServiceMetrics> {
    const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
    return new ServiceMetrics(await response.text());
  }

  /** Of a service in this process. */
  static async of(app: INestApplicationContext): Promise<ServiceMetrics> {
    return new ServiceMetrics(await app.get(Metrics).registry.metrics());
  }

  /** The sum over all series of a metric, or over those whose labels contain a text. */
  sum(name: string, labels = ''): number {
    return this.text
      .split('\n')
      .filter((line) => (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && line.includes(labels))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  }
}
