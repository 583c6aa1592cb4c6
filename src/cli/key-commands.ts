import { Argument, type Command, Option } from 'commander';
import type { ApiKeysAdmin, IssuedKey, KeyRecord, PlanQuotasError } from '../api-keys/api-keys.admin.js';
import type { Plan } from '../plans/plans.js';
import { duration, futureTime, keyId, keyName, plan, integer } from './arguments.js';
import { print } from './print.js';

const OVERLAP_DEFAULT_MS = 86_400_000;

interface QuotaOptions {
  readonly perMinute?: number;
  readonly perDay?: number;
}

interface OutputOptions {
  readonly json?: true;
}

const KEYS_HELP = `
Examples:
  petstore keys issue --name "Partner Inc." --plan pro
  petstore keys issue --name "Big Partner" --plan enterprise --per-minute 5000 --per-day 1000000
  petstore keys list --json
  petstore keys rotate ID --overlap 24h

Every change takes effect in all running services within a second.`;

export function addKeyCommands(program: Command): void {
  const keys = program.command('keys').description('administer API keys').addHelpText('after', KEYS_HELP);
  const id = (): Argument => new Argument('<id>', 'the id of the key').argParser(keyId);

  withQuotas(keys.command('issue').description('make a key; it is shown once'))
    .requiredOption('--name <name>', 'whose key it is', keyName)
    .option('--expires-at <time>', 'when it stops working, like 2027-01-31T12:00:00Z', futureTime)
    .option('--json', 'print {"id", "key"}')
    .action(async (options: QuotaOptions & OutputOptions & { name: string; plan: Plan; expiresAt?: Date }) => {
      const { name, expiresAt } = options;
      printIssued(await withAdmin((admin) => admin.issue({ name, expiresAt, ...choiceOf(options) })), options);
    });

  keys
    .command('list')
    .description('show all keys, the newest first; how many requests they have left today is known with REDIS_URL')
    .option('--json', 'print an array of objects')
    .action(async ({ json }: OutputOptions) => {
      const { viewsOf } = await import('./key-view.js');
      const { keyTable } = await import('./key-table.js');
      const records = await withAdmin((admin) => admin.list());
      const nowMs = Date.now();
      const views = await viewsOf(records, await redisUrls(), nowMs);
      print(json, views, keyTable(views, nowMs));
    });

  keys
    .command('show')
    .description('show all that is known of one key')
    .addArgument(id())
    .option('--json', 'print the key as an object, as "keys list" does')
    .action(async (key: string, { json }: OutputOptions) => {
      const { viewOf } = await import('./key-view.js');
      const { keyDetails } = await import('./key-table.js');
      const record = await withAdmin((admin) => admin.find(key));
      const nowMs = Date.now();
      const view = await viewOf(record, await redisUrls(), nowMs);
      print(json, view, keyDetails(view, nowMs));
    });

  keys
    .command('revoke')
    .description('make a key invalid at once and for good')
    .addArgument(id())
    .option('--json', 'print {"id", "revoked"}')
    .action(async (key: string, { json }: OutputOptions) => {
      const revoked = await withAdmin((admin) => admin.revoke(key));
      print(json, { id: key, revoked }, revoked ? `The key ${key} is revoked.` : `The key ${key} was revoked before.`);
    });

  keys
    .command('rotate')
    .description('make a successor of a key; it is shown once, and the old key runs out')
    .addArgument(id())
    .addOption(
      new Option('--overlap <duration>', 'how long the old key stays good, like 30m, 24h, 7d or 0')
        .argParser(duration)
        .default(OVERLAP_DEFAULT_MS, '24h'),
    )
    .option('--json', 'print {"id", "key"}')
    .action(async (key: string, options: OutputOptions & { overlap: number }) => {
      printIssued(await withAdmin((admin) => admin.rotate(key, options.overlap)), options);
    });

  withQuotas(keys.command('set-plan').description('change the plan of a key'))
    .addArgument(id())
    .option('--json', 'print the key as an object')
    .action(async (key: string, options: QuotaOptions & OutputOptions & { plan: Plan }) => {
      const record: KeyRecord = await withAdmin((admin) => admin.setPlan(key, choiceOf(options)));
      print(options.json, record, `The key ${key} has the plan ${record.plan}.`);
    });

  keys
    .command('unban')
    .description('end the temporary ban of a key in every running service')
    .addArgument(id())
    .option('--json', 'print {"id"}')
    .action(async (key: string, { json }: OutputOptions) => {
      const redis = await redisUrls();
      const { liftKeyBan } = await import('../admission/lift-key-ban.js');
      await withAdmin((admin) => liftKeyBan(key, admin, redis));
      print(json, { id: key }, `The key ${key} is not banned any more.`);
    });
}

function withQuotas(command: Command): Command {
  return command
    .requiredOption('--plan <plan>', 'free, pro, business or enterprise', plan)
    .option('--per-minute <n>', 'requests per minute (enterprise only)', integer(1))
    .option('--per-day <n>', 'requests per day (enterprise only)', integer(1));
}

function choiceOf({ plan, perMinute, perDay }: QuotaOptions & { plan: Plan }): {
  plan: Plan;
  requestsPerMinute: number | undefined;
  requestsPerDay: number | undefined;
} {
  return { plan, requestsPerMinute: perMinute, requestsPerDay: perDay };
}

function quotaHint({ plan, problem }: PlanQuotasError): string {
  return problem === 'missing'
    ? `The plan ${plan} has custom quotas: pass both --per-minute and --per-day.`
    : `The plan ${plan} has published quotas: --per-minute and --per-day are for enterprise only.`;
}

/** What a command needs is loaded when it runs: asking for help must not wait for a database client. */
async function withAdmin<T>(work: (admin: ApiKeysAdmin) => Promise<T>): Promise<T> {
  const { databaseUrl } = await import('./settings.js');
  const { connectPrisma } = await import('../database/prisma.service.js');
  const { ApiKeysAdmin, KeyAdministrationError, PlanQuotasError } = await import('../api-keys/api-keys.admin.js');
  const connection = connectPrisma(await databaseUrl());
  try {
    return await work(new ApiKeysAdmin(connection.prisma));
  } catch (error) {
    throw error instanceof PlanQuotasError ? new KeyAdministrationError(quotaHint(error), { cause: error }) : error;
  } finally {
    await connection.close();
  }
}

async function redisUrls(): Promise<readonly string[]> {
  const settings = await import('./settings.js');
  return settings.redisUrls();
}

function printIssued({ id, key }: IssuedKey, { json }: OutputOptions): void {
  print(json, { id, key }, `id   ${id}\nkey  ${key}\n\nThe key is shown this once; it is stored as a digest only.`);
}
