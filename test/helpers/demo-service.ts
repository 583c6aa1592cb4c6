import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, readFileSync, symlinkSync } from 'node:fs';
import { join, relative } from 'node:path';
import { CLI } from './build.js';
import { useTemporaryFolder } from './temporary-folder.js';
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

/** A separate checkout, so that tests do not touch the developer's embedded data. Call the constructor at the top level. */
export class DemoCheckout {
  readonly folder = useTemporaryFolder('checkout');
  /** The embedded service's files. */
  readonly data = join(this.folder, '.data');

  constructor() {
    beforeAll(() => {
      for (const name of ['dist', 'prisma', 'prisma.config.ts', 'package.json']) {
        cpSync(join(ROOT, name), join(this.folder, name), { recursive: true });
      }
      symlinkSync(join(ROOT, 'node_modules'), join(this.folder, 'node_modules'));
    });
  }

  run(...args: string[]): DemoRun {
    return this.runWith({}, ...args);
  }

  /** Runs a command with further environment variables. */
  runWith(environment: Readonly<Record<string, string>>, ...args: string[]): DemoRun {
    return this.#spawn([process.execPath, join(this.folder, relative(ROOT, CLI)), ...args], environment);
  }

  /**
   * Runs a command on a pseudo-terminal; its stdin is the terminal's input.
   * `exec`, because a shell that waits for the command reports Ctrl-C as 130 whatever the command's exit code (dash).
   */
  runOnTerminal(command: string): DemoRun {
    return this.#spawn(['script', '--quiet', '--return', '--flush', '--command', `exec ${command}`, '/dev/null']);
  }

  /** The service, ready for requests. */
  async serve(run: DemoRun = this.run('serve')): Promise<DemoService> {
    await waitFor(() => hasStarted(run), 'the banner is printed', { withinMs: 60_000 });
    const baseUrl = /API +(http:\/\/127\.0\.0\.1:\d+)\/v1/.exec(run.output())?.[1] ?? '';
    const freeKey = /free key +(pst_\w+)/.exec(run.output())?.[1] ?? '';
    return { ...run, baseUrl, freeKey };
  }

  /** The process id that the embedded PostgreSQL has recorded. */
  postmasterPid(): number {
    return Number(readFileSync(join(this.data, 'cluster', 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);
  }

  #spawn([command = '', ...args]: readonly string[], extra: Readonly<Record<string, string>> = {}): DemoRun {
    const ports = { PORT: '0', METRICS_PORT: '0' };
    // PGSSLMODE: what a developer has set for other servers.
    const environment = { ...process.env, ...ports, PGSSLMODE: 'require', NODE_ENV: 'development', ...extra };
    delete (environment as NodeJS.ProcessEnv).DATABASE_URL;
    const child = spawn(command, args, { cwd: this.folder, env: environment });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
    return { child, output: () => output, exited: new Promise((resolve) => child.once('exit', resolve)) };
  }
}

function hasStarted({ child, output }: DemoRun): boolean {
  if (child.exitCode !== null) {
    throw new Error(`The service ended with ${child.exitCode}: ${output()}`);
  }
  return output().includes('List all orders');
}
