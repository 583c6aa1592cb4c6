import { percentile } from '../measure/statistics.mjs';
import { Connection } from './connection.mjs';
import { messages } from './messages.mjs';

const PACE_INTERVAL_MS = 5;

/**
 * One run: keeps connections busy, or sends at a fixed rate, during a warm-up and a measured span.
 * @param {object} spec
 * @param {number} spec.port
 * @param {number} spec.connections
 * @param {object} spec.request see {@link messages}
 * @param {number} spec.warmupSeconds
 * @param {number} spec.seconds
 * @param {number} [spec.perSecond] sends at this rate instead of as fast as possible
 * @param {(event: 'begin' | 'end') => void} onEvent called when the measured span begins and ends
 */
export async function loadRun(spec, onEvent) {
  const run = new LoadRun(spec, onEvent);
  await run.connect();
  return run.result();
}

class LoadRun {
  #next;
  #connections = [];
  #idle = [];
  #statuses = {};
  #latencies = [];
  #broken = [];
  #counting = false;
  #stopped = false;
  #exhausted = false;
  #settle;

  constructor(spec, onEvent) {
    this.spec = spec;
    this.onEvent = onEvent;
    this.#next = messages(spec.request);
  }

  connect() {
    return Promise.all(
      Array.from({ length: this.spec.connections }, () => {
        const connection = new Connection(
          this.spec.port,
          (_, status) => this.#responded(connection, status),
          (_, reason) => this.#lost(connection, reason),
        );
        this.#connections.push(connection);
        return new Promise((resolve, reject) => {
          connection.socket.once('connect', resolve).once('error', reject);
        });
      }),
    );
  }

  async result() {
    const { warmupSeconds, seconds, perSecond } = this.spec;
    const finished = new Promise((resolve) => (this.#settle = resolve));
    const timers = [setTimeout(() => this.#end(), (warmupSeconds + seconds) * 1_000)];
    if (warmupSeconds > 0) {
      timers.push(setTimeout(() => this.#begin(), warmupSeconds * 1_000));
    } else {
      this.#begin();
    }
    if (perSecond === undefined) {
      this.#connections.forEach((connection) => this.#sendOn(connection));
    } else {
      this.#idle = [...this.#connections];
      timers.push(this.#pace(perSecond));
    }
    await finished;
    timers.forEach(clearTimeout);
    this.#connections.forEach((connection) => connection.close());
    return this.#summary();
  }

  #begin() {
    this.#counting = true;
    this.cpuAtBegin = process.cpuUsage();
    this.beganAt = performance.now();
    this.onEvent('begin');
  }

  /** Ends the measured span. In-flight requests are still awaited, so that they do not reach into the next run. */
  #end() {
    if (this.#stopped) {
      return;
    }
    this.#stopped = true;
    this.#counting = false;
    this.endedAt = performance.now();
    const { user, system } = process.cpuUsage(this.cpuAtBegin);
    this.cpuSeconds = (user + system) / 1e6;
    this.onEvent('end');
    this.#settleWhenQuiet();
  }

  #settleWhenQuiet() {
    if (this.#stopped && !this.#connections.some((connection) => connection.busy)) {
      this.#settle();
    }
  }

  #pace(perSecond) {
    const startedAt = performance.now();
    let sent = 0;
    return setInterval(() => {
      const due = Math.floor(((performance.now() - startedAt) / 1_000) * perSecond);
      // Requests that find no free connection are skipped, so that no backlog builds up.
      const possible = Math.min(due - sent, this.#idle.length);
      for (let count = 0; count < possible && !this.#stopped; count++) {
        this.#sendOn(this.#idle.pop());
      }
      sent = due;
    }, PACE_INTERVAL_MS);
  }

  #sendOn(connection) {
    const message = this.#stopped ? undefined : this.#next();
    if (message !== undefined) {
      connection.send(message);
      return;
    }
    if (!this.#stopped) {
      this.#exhausted = true;
      if (!this.#connections.some((other) => other.busy)) {
        this.#end();
      }
    }
  }

  #responded(connection, status) {
    if (this.#counting) {
      this.#statuses[status] = (this.#statuses[status] ?? 0) + 1;
      this.#latencies.push(performance.now() - connection.sentAt);
    }
    if (this.spec.perSecond === undefined) {
      this.#sendOn(connection);
    } else {
      this.#idle.push(connection);
    }
    this.#settleWhenQuiet();
  }

  #lost(connection, reason) {
    connection.busy = false;
    this.#broken.push(reason);
    this.#connections = this.#connections.filter((other) => other !== connection);
    this.#idle = this.#idle.filter((other) => other !== connection);
    if (this.#connections.length === 0) {
      this.#end();
    }
    this.#settleWhenQuiet();
  }

  #summary() {
    if (this.beganAt === undefined) {
      throw new Error('The run ended during its warm-up: too few orders, or no connection stayed open.');
    }
    const seconds = (this.endedAt - this.beganAt) / 1_000;
    const sorted = Float64Array.from(this.#latencies).sort();
    return {
      responses: sorted.length,
      seconds,
      perSecond: sorted.length / seconds,
      p50Ms: percentile(sorted, 0.5),
      p99Ms: percentile(sorted, 0.99),
      statuses: this.#statuses,
      broken: this.#broken,
      exhausted: this.#exhausted,
      /** The share of one core that the client used. */
      clientCpuShare: this.cpuSeconds / seconds,
    };
  }
}
