import { execFileSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { DemoCheckout } from '../../helpers/demo-service.js';
import { describeIf } from '../../helpers/describe-if.js';

const checkout = new DemoCheckout();
const NAMED =
  /belongs to another user, who may be running it \(EACCES: .*\.data\/cluster\/data\)\. Run as that user, or/;

/** Runs a command as the user `daemon`. */
function asAnotherUser(...args: string[]): { exitCode: number; output: string } {
  const environment = { PATH: process.env.PATH, PORT: '0', METRICS_PORT: '0' };
  const command = ['--reuid=1', '--regid=1', '--clear-groups', process.execPath, 'dist/bundle/cli.js', ...args];
  try {
    const options = { cwd: checkout.folder, env: environment, encoding: 'utf8', stdio: 'pipe' } as const;
    const output = execFileSync('setpriv', command, options);
    return { exitCode: 0, output };
  } catch (error) {
    const { status, stdout, stderr } = error as { status: number; stdout: string; stderr: string };
    return { exitCode: status, output: stdout + stderr };
  }
}

describeIf(process.getuid?.() === 0, 'root, to become another user')('the embedded database of another user', () => {
  it('is named by the commands, doctor and a second service', async () => {
    chmodSync(checkout.folder, 0o755);
    const service = await checkout.serve();
    try {
      for (const [args, exitCode] of [
        [['keys', 'list'], 1],
        [['doctor'], 2],
        [['serve'], 1],
      ] as const) {
        expect(asAnotherUser(...args)).toEqual({ exitCode, output: expect.stringMatching(NAMED) as unknown });
      }
    } finally {
      service.child.kill('SIGINT');
      await service.exited;
    }
  });
});
