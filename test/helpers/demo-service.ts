import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitFor } from './wait-for.js';

const ROOT = join(__dirname, '..', '..');

/** A `petstore` command that runs in a {@link DemoCheckout}. */
export interface DemoRun {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly exited: Promise<number | null>;
}

export interface DemoService extends DemoRun {
  /** `http://127.0.0.1:<port>` */
  readonly baseUrl: string;
  readonly freeKey: string;
}

/** A checkout of its own, so that the embedded data of whoever runs the tests stays untouched. */
export class DemoCheckout {
  readonly folder = mkdtempSync(join(tmpdir(), 'petstore-checkout-'));

  constructor() {
    for (const name of ['dist', 'prisma', 'prisma.config.ts', 'package.json']) {
      cpSync(join(ROOT, name), join(this.folder, name), { recursive: true });
    }
    symlinkSync(join(ROOT, 'node_modules'), join(this.folder, 'node_modules'));
  }

  run(...args: string[]): DemoRun {
    const environment = { ...process.env, PORT: '0', METRICS_PORT: '0', NODE_ENV: 'development' };
    delete (environment as NodeJS.ProcessEnv).DATABASE_URL;
    const child = spawn(process.execPath, [join(this.folder, 'dist', 'cli.js'), ...args], {
      cwd: this.folder,
      env: environment,
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
    return { child, output: () => output, exited: new Promise((resolve) => child.once('exit', resolve)) };
  }

  /** What `npm start` runs, ready for requests. */
  async serve(): Promise<DemoService> {
    const service = this.run('serve');
    await waitFor(() => hasStarted(service), 'the banner is printed', { withinMs: 60_000 });
    const baseUrl = /API +(http:\/\/127\.0\.0\.1:\d+)\/v1/.exec(service.output())?.[1] ?? '';
    const freeKey = /free key +(pst_\w+)/.exec(service.output())?.[1] ?? '';
    return { ...service, baseUrl, freeKey };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function hasStarted({ child, output }: DemoRun): boolean {
  if (child.exitCode !== null) {
    throw new Error(`The service ended with ${child.exitCode}: ${output()}`);
  }
  return output().includes('List all orders');
}
