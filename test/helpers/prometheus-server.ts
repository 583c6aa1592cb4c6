import { type ChildProcess, spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { dump, load } from 'js-yaml';
import { freePort } from './free-port.js';
import { waitFor } from './wait-for.js';

const CONFIGURATION = join(__dirname, '..', '..', 'deploy', 'prometheus');

/** A time series of a range query. */
export interface Series {
  readonly metric: Readonly<Record<string, string>>;
  /** Unix seconds and the value as text. */
  readonly values: readonly (readonly [number, string])[];
}

/** A Prometheus with the configuration of `deploy/prometheus/`, which scrapes one target every second. */
export class PrometheusServer {
  private constructor(
    private readonly port: number,
    private readonly child: ChildProcess,
    private readonly folder: string,
  ) {}

  static async start(target: string): Promise<PrometheusServer> {
    const folder = mkdtempSync(join(tmpdir(), 'petstore-prometheus-'));
    copyFileSync(join(CONFIGURATION, 'alerts.yml'), join(folder, 'alerts.yml'));
    const config = load(readFileSync(join(CONFIGURATION, 'prometheus.yml'), 'utf8')) as {
      scrape_configs: { job_name: string }[];
    };
    writeFileSync(
      join(folder, 'prometheus.yml'),
      dump({
        ...config,
        global: { scrape_interval: '1s', evaluation_interval: '1s' },
        scrape_configs: config.scrape_configs.map(({ job_name }) => ({
          job_name,
          static_configs: [{ targets: [target] }],
        })),
      }),
    );
    const port = await freePort();
    const child = spawn(
      'prometheus',
      [
        `--config.file=${join(folder, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(folder, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      { stdio: 'ignore' },
    );
    const server = new PrometheusServer(port, child, folder);
    await waitFor(() => server.#isReady(), 'Prometheus is ready', { withinMs: 30_000 });
    return server;
  }

  /** Calls the HTTP API and returns the `data` of its response. */
  async get<T>(path: string, parameters: Readonly<Record<string, string>> = {}): Promise<T> {
    const query = new URLSearchParams(parameters);
    const response = await fetch(`http://127.0.0.1:${this.port}/api/v1/${path}?${query.toString()}`);
    const { status, data, error } = (await response.json()) as { status: string; data: T; error?: string };
    if (status !== 'success') {
      throw new Error(`${path}: ${error ?? status}`);
    }
    return data;
  }

  async queryRange(query: string, fromSeconds: number, toSeconds: number): Promise<readonly Series[]> {
    const range = { start: String(fromSeconds), end: String(toSeconds), step: '1' };
    return (await this.get<{ result: readonly Series[] }>('query_range', { query, ...range })).result;
  }

  async stop(): Promise<void> {
    const exited = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGTERM');
    await exited;
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #isReady(): Promise<boolean> {
    try {
      return (await fetch(`http://127.0.0.1:${this.port}/-/ready`)).ok;
    } catch {
      return false;
    }
  }
}
