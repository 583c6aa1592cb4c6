import { Argument, type Command, Option } from 'commander';
import type { ApiKeysAdmin, Deliver, IssuedKey, PlanChoice } from '../api-keys/api-keys.admin.js';
import { CUSTOM_QUOTAS, type Plan, PLAN_QUOTAS } from '../plans/plans.js';
import { duration, futureTime, integer, keyId, keyName, plan } from './arguments.js';
import type { TableAccess } from './command-database.js';
import { addUsageCommand } from './usage-command.js';
import { isDiscarded, OutputError, print, printResult } from './output.js';
import { messageOf, UsageError } from './report-error.js';

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
  petstore keys usage --days 7
  petstore keys rotate ID --overlap 24h

Changes take effect in all running services within a second.`;

export function addKeyCommands(program: Command): void {
  const keys = program.command('keys').description('administer API keys').addHelpText('after', KEYS_HELP);
  const command = (name: string, description: string, json: string): Command =>
    keys.command(name).description(description).option('--json', `print ${json}`);
  const commandOfKey = (...texts: Parameters<typeof command>): Command =>
    command(...texts).addArgument(new Argument('<id>', 'id of the key, or its first 8 characters').argParser(keyId));

  withQuotas(command('issue', 'issue a key; it is printed once', '{"id", "key", "expiresAt"}'))
    .requiredOption('--name <name>', 'name of the holder', keyName)
    .option('--expires-at <time>', 'expiry time, like 2027-01-31T12:00:00Z', futureTime)
    .action(async (options: QuotaOptions & OutputOptions & { name: string; plan: Plan; expiresAt?: Date }) => {
      const { name, expiresAt } = options;
      const choice = choiceOf(options);
      await printNewKey(options, ['SELECT', 'INSERT'], (admin, deliver) =>
        admin.issue({ name, expiresAt, ...choice }, deliver),
      );
    });

  command(
    'list',
    'list all keys, the newest first; the remaining requests of today need REDIS_URL',
    'an array of objects',
  ).action(async ({ json }: OutputOptions) => {
    const { viewsOf } = await import('./key-view.js');
    const { keyTable } = await import('./key-table.js');
    const records = await withAdmin(['SELECT'], (admin) => admin.list());
    const nowMs = Date.now();
    const views = await viewsOf(records, await redisUrls(), nowMs);
    await print(json, views, keyTable(views, nowMs));
  });

  commandOfKey('show', 'show one key', 'the key as an object with the fields of "keys list"').action(
    async (key: string, { json }: OutputOptions) => {
      const { viewsOf } = await import('./key-view.js');
      const { keyDetails } = await import('./key-table.js');
      const record = await withAdmin(['SELECT'], async (admin) => admin.find(await admin.idOf(key)));
      const nowMs = Date.now();
      for (const view of await viewsOf([record], await redisUrls(), nowMs)) {
        await print(json, view, keyDetails(view, nowMs));
      }
    },
  );

  addUsageCommand(keys);

  commandOfKey('revoke', 'revoke a key permanently', '{"id", "revoked", "successorId"}').action(
    async (key: string, { json }: OutputOptions) => {
      const result = await withAdmin(['SELECT', 'UPDATE'], async (admin) => {
        const id = await admin.idOf(key);
        return { id, ...(await admin.revoke(id)) };
      });
      const successor = result.successorId === null ? '' : ` Its successor ${result.successorId} is not affected.`;
      const text = `The key ${result.id} ${result.revoked ? 'is revoked' : 'was revoked already'}.${successor}`;
      await printResult(json, result, text);
    },
  );

  commandOfKey(
    'rotate',
    'issue a successor of a key, which is printed once; the old key expires after the overlap',
    '{"id", "key", "expiresAt"}',
  )
    .addOption(
      new Option('--overlap <duration>', 'how long the old key stays valid, like 30m, 24h, 7d or 0')
        .argParser(duration)
        .default(OVERLAP_DEFAULT_MS, '24h'),
    )
    .action(async (key: string, options: OutputOptions & { overlap: number }) => {
      await printNewKey(options, ['SELECT', 'INSERT', 'UPDATE'], async (admin, deliver) =>
        admin.rotate(await admin.idOf(key), options.overlap, deliver),
      );
    });

  withQuotas(commandOfKey('set-plan', 'change the plan of a key', 'the key as an object')).action(
    async (key: string, options: QuotaOptions & OutputOptions & { plan: Plan }) => {
      const choice = choiceOf(options);
      const record = await withAdmin(['SELECT', 'UPDATE'], async (admin) =>
        admin.setPlan(await admin.idOf(key), choice),
      );
      await printResult(options.json, record, `The key ${record.id} has the plan ${record.plan}.`);
    },
  );

  commandOfKey('unban', 'end the temporary ban of a key in every running service', '{"id"}').action(
    async (key: string, { json }: OutputOptions) => {
      const redis = await redisUrls();
      const { liftKeyBan } = await import('./lift-key-ban.js');
      const id = await withAdmin(['SELECT'], async (admin) => {
        const found = await admin.idOf(key);
        await liftKeyBan(found, admin, redis);
        return found;
      });
      await printResult(json, { id }, `The key ${id} is not banned.`);
    },
  );
}

function withQuotas(command: Command): Command {
  return command
    .requiredOption('--plan <plan>', 'free, pro, business or enterprise', plan)
    .option('--per-minute <n>', 'requests per minute (enterprise only)', integer(1))
    .option('--per-day <n>', 'requests per day (enterprise only)', integer(1));
}

/** @throws {UsageError} when the quotas do not fit the plan */
function choiceOf({ plan, perMinute, perDay }: QuotaOptions & { plan: Plan }): PlanChoice {
  const isCustom = PLAN_QUOTAS[plan] === CUSTOM_QUOTAS;
  if (isCustom && (perMinute === undefined || perDay === undefined)) {
    throw new UsageError(`The plan ${plan} has custom quotas: pass both --per-minute and --per-day.`);
  }
  if (!isCustom && (perMinute !== undefined || perDay !== undefined)) {
    throw new UsageError(`The plan ${plan} has published quotas: --per-minute and --per-day are for enterprise only.`);
  }
  return { plan, requestsPerMinute: perMinute, requestsPerDay: perDay };
}

/** Imports the database client only when a command runs, so that --help is fast. */
async function withAdmin<T>(
  privileges: TableAccess['privileges'],
  work: (admin: ApiKeysAdmin) => Promise<T>,
): Promise<T> {
  const { withDatabase } = await import('./command-database.js');
  const { connectPrisma } = await import('../database/connect-prisma.js');
  const { ApiKeysAdmin } = await import('../api-keys/api-keys.admin.js');
  const databaseUrl = await withDatabase([{ table: 'api_keys', privileges }], (_db, url) => Promise.resolve(url));
  const connection = connectPrisma(databaseUrl);
  try {
    return await work(new ApiKeysAdmin(connection.prisma));
  } finally {
    await connection.close().catch(() => undefined);
  }
}

async function redisUrls(): Promise<readonly string[]> {
  const { redisUrls } = await import('./command-database.js');
  return redisUrls();
}

/** Prints a new key before it is committed: a key that was not shown never becomes valid. */
async function printNewKey(
  { json }: OutputOptions,
  privileges: TableAccess['privileges'],
  create: (admin: ApiKeysAdmin, deliver: Deliver) => Promise<IssuedKey>,
): Promise<void> {
  if (isDiscarded()) {
    throw new UsageError('Stdout is closed or discarded, so the new key would be lost; no key was issued.');
  }
  let printedId: string | undefined;
  const deliver = async (issued: IssuedKey): Promise<void> => {
    const { id, key, expiresAt } = issued;
    const lines = [`id       ${id}`, `key      ${key}`, `expires  ${expiresAt?.toISOString() ?? 'never'}`];
    await print(json, issued, [...lines, '', 'Store the key now: it is not shown again.'].join('\n'));
    printedId = id;
  };
  try {
    await withAdmin(privileges, (admin) => create(admin, deliver));
  } catch (error) {
    if (error instanceof OutputError) {
      throw new Error(`${error.message}, so no key was issued. Run the command again.`, { cause: error });
    }
    if (printedId !== undefined) {
      throw new Error(
        `${messageOf(error)}. The printed key may be invalid: check with "petstore keys show ${printedId}".`,
        { cause: error },
      );
    }
    throw error;
  }
}
