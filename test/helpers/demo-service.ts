import { cpSync, readFileSync, symlinkSync } from 'node:fs';
import { join, relative } from 'node:path';
import { CLI } from './build.js';
import { Program } from './program.js';
import { useTemporaryFolder } from './temporary-folder.js';

const ROOT = join(__dirname, '..', '..');

export type DemoService = Program & {
  /** `http://127.0.0.1:<port>` */
  readonly baseUrl: string;
  readonly freeKey: string;
};

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

  /** Runs a command of `petstore`. */
  run(...args: string[]): Program {
    return this.runWith({}, ...args);
  }

  /** Runs a command with further environment variables. */
  runWith(environment: Readonly<Record<string, string>>, ...args: string[]): Program {
    return this.#start([process.execPath, join(this.folder, relative(ROOT, CLI)), ...args], environment);
  }

  /**
   * Runs a command on a pseudo-terminal; its stdin is the terminal's input.
   * `exec`, because a shell that waits for the command reports Ctrl-C as 130 whatever the command's exit code (dash).
   */
  runOnTerminal(command: string): Program {
    return this.#start(['script', '--quiet', '--return', '--flush', '--command', `exec ${command}`, '/dev/null']);
  }

  /** The service, ready for requests. */
  async serve(service: Program = this.run('serve')): Promise<DemoService> {
    await service.untilOutput(/List all orders/);
    const [, baseUrl = ''] = /API +(http:\/\/127\.0\.0\.1:\d+)\/v1/.exec(service.output) ?? [];
    const [, freeKey = ''] = /free key +(pst_\w+)/.exec(service.output) ?? [];
    return Object.assign(service, { baseUrl, freeKey });
  }

  /** The process id that the embedded PostgreSQL has recorded. */
  postmasterPid(): number {
    return Number(readFileSync(join(this.data, 'cluster', 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);
  }

  #start(command: readonly string[], extra: Readonly<Record<string, string>> = {}): Program {
    const ports = { PORT: '0', METRICS_PORT: '0' };
    // PGSSLMODE: what a developer has set for other servers.
    const environment = { ...process.env, ...ports, PGSSLMODE: 'require', NODE_ENV: 'development', ...extra };
    delete (environment as NodeJS.ProcessEnv).DATABASE_URL;
    return new Program(command, { cwd: this.folder, env: environment });
  }
}
