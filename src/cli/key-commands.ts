import { Argument, type Command, Option } from 'commander';
import { ApiKeysAdmin, type IssuedKey, type KeyRecord, type PlanChoice } from '../api-keys/api-keys.admin.js';
import { type Plan, PLANS } from '../plans/plans.js';
import { duration, futureTime, integer, keyId, keyName, UsageError } from './arguments.js';
import { redisUrl, withDatabase } from './command-database.js';
import { keyTable, viewsOf } from './key-view.js';
import { details, print } from './output.js';
import { addUsageCommand } from './usage-command.js';

const OVERLAP_DEFAULT_MS = 86_400_000;

const KEYS_HELP = `
Examples:
  petstore keys issue --name "Partner Inc." --plan pro
  petstore keys issue --name "Big Partner" --plan enterprise --per-minute 5000 --per-day 1000000
  petstore keys list --json
  petstore keys usage --days 7
  petstore keys rotate ID --overlap 24h

Changes take effect in all running services within a second.`;

interface JsonOption {
  readonly json?: true;
}

interface PlanOptions extends JsonOption {
  readonly plan: Plan;
  readonly perMinute?: number;
  readonly perDay?: number;
}

interface IssueOptions extends PlanOptions {
  readonly name: string;
  readonly expiresAt?: Date;
}

interface RotateOptions extends JsonOption {
  readonly overlap: number;
  readonly expiresAt?: Date;
}

const ID = new Argument('<id>', 'id of the key, or at least its first 8 characters').argParser(keyId);
const EXPIRES_AT = new Option('--expires-at <time>', 'expiry time of the new key, like 2027-01-31T12:00:00Z').argParser(
  futureTime,
);
const OVERLAP = new Option('--overlap <duration>', 'how long the old key stays valid, like 30m, 24h, 7d or 0')
  .argParser(duration)
  .default(OVERLAP_DEFAULT_MS, '24h');

export function addKeyCommands(program: Command): void {
  const keys = program.command('keys').description('administer API keys').addHelpText('after', KEYS_HELP);
  addUsageCommand(keys);
  withPlan(keys.command('issue'))
    .description('issue a key; it is printed once')
    .requiredOption('--name <name>', 'name of the holder', keyName)
    .addOption(EXPIRES_AT)
    .option('--json', 'print {"id", "key", "expiresAt"}')
    .action(async (options: IssueOptions) => {
      const key = { ...options, ...choiceOf(options) };
      await printNewKey(options, await withAdmin((admin) => admin.issue(key)));
    });
  keys
    .command('list')
    .description("list all keys, the newest first; today's remaining requests and bans need REDIS_URL")
    .option(
      '--json',
      'print an array of objects; "banned" is true, false, or null when bans are unknown: without REDIS_URL, or while Redis cannot be used',
    )
    .action(async ({ json }: JsonOption) => {
      const views = await viewsOf(await withAdmin((admin) => admin.list()));
      await print(json, views, keyTable(views));
    });
  keys
    .command('show')
    .description('show one key')
    .addArgument(ID)
    .option('--json', 'print the key as an object with the fields of "keys list"')
    .action(async (prefix: string, { json }: JsonOption) => {
      const [view = {}] = await viewsOf([await withAdmin((admin) => admin.find(prefix))]);
      await print(json, view, details(view));
    });
  keys
    .command('revoke')
    .description('revoke a key permanently')
    .addArgument(ID)
    .option('--json', 'print {"id", "revoked", "successorId"}')
    .action(async (prefix: string, { json }: JsonOption) => {
      await withKey(prefix, async (admin, { id, successorId }) => {
        const revoked = await admin.revoke(id);
        const text = `The key ${id} ${revoked ? 'is revoked' : 'was revoked already'}.${noteOn(successorId)}`;
        await print(json, { id, revoked, successorId }, text);
      });
    });
  keys
    .command('rotate')
    .description('issue a successor of a key and print it once; the old key expires after the overlap')
    .addArgument(ID)
    .addOption(OVERLAP)
    .addOption(EXPIRES_AT)
    .option('--json', 'print {"id", "key", "expiresAt"}')
    .action(async (prefix: string, options: RotateOptions) => {
      const { overlap, expiresAt } = options;
      await printNewKey(options, await withKey(prefix, (admin, { id }) => admin.rotate(id, overlap, expiresAt)));
    });
  withPlan(keys.command('set-plan'))
    .description('change the plan of a key')
    .addArgument(ID)
    .option('--json', 'print the key as an object')
    .action(async (prefix: string, options: PlanOptions) => {
      const choice = choiceOf(options);
      const record = await withKey(prefix, (admin, { id }) => admin.setPlan(id, choice));
      const text = `The key ${record.id} has the plan ${record.plan}.${noteOn(record.successorId)}`;
      await print(options.json, record, text);
    });
  keys
    .command('unban')
    .description('end the temporary ban of a key in every running service')
    .addArgument(ID)
    .option('--json', 'print {"id"}')
    .action(async (prefix: string, { json }: JsonOption) => {
      const url = await redisUrl();
      await withKey(prefix, async (admin, { id }) => {
        // First: while Redis is unavailable, each service decides with a ban of its own.
        await admin.notifyUnbanned(id);
        if (url !== undefined) {
          const { liftBanInRedis } = await import('../rate-limit/redis-admin.js');
          await liftBanInRedis(url, id);
        }
        await print(json, { id }, `Any ban of the key ${id} is lifted; its limits still apply.`);
      });
    });
}

function withPlan(command: Command): Command {
  return command
    .addOption(new Option('--plan <plan>', 'plan of the key').choices(PLANS).makeOptionMandatory())
    .option('--per-minute <n>', 'requests per minute (enterprise only)', integer(1))
    .option('--per-day <n>', 'requests per day (enterprise only)', integer(1));
}

function withAdmin<T>(work: (admin: ApiKeysAdmin) => Promise<T>): Promise<T> {
  return withDatabase(({ prisma }) => work(new ApiKeysAdmin(prisma)));
}

/** @param prefix the first characters of the id of the key */
function withKey<T>(prefix: string, work: (admin: ApiKeysAdmin, key: KeyRecord) => Promise<T>): Promise<T> {
  return withAdmin(async (admin) => work(admin, await admin.find(prefix)));
}

function noteOn(successorId: string | null): string {
  return successorId === null ? '' : ` Its successor ${successorId} is not affected.`;
}

/** @throws {UsageError} when the quotas do not fit the plan */
function choiceOf({ plan, perMinute, perDay }: PlanOptions): PlanChoice {
  const isCustom = plan === 'enterprise';
  if ([perMinute, perDay].some((quota) => (quota !== undefined) !== isCustom)) {
    throw new UsageError(
      `Pass both --per-minute and --per-day for enterprise, and neither for a plan with published quotas (got ${plan}).`,
    );
  }
  return { plan, requestsPerMinute: perMinute, requestsPerDay: perDay };
}

async function printNewKey({ json }: JsonOption, issued: IssuedKey): Promise<void> {
  const { id, key, expiresAt } = issued;
  const lines = [`id       ${id}`, `key      ${key}`, `expires  ${expiresAt?.toISOString() ?? 'never'}`];
  await print(json, issued, [...lines, '', 'Store the key now: it is not shown again.'].join('\n'));
}
