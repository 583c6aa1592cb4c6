import { Argument, type Command, Option } from 'commander';
import type { ApiKeysAdmin, Deliver, IssuedKey, PlanChoice } from '../api-keys/api-keys.admin.js';
import { CUSTOM_QUOTAS, type Plan, PLAN_QUOTAS } from '../plans/plans.js';
import { duration, futureTime, integer, keyId, keyName, plan } from './arguments.js';
import type { TableAccess } from './command-database.js';
import { addUsageCommand } from './usage-command.js';
import { isDiscarded, OutputError, print, printResult } from './output.js';
import { messageOf, UsageError } from './report-error.js';

const OVERLAP_DEFAULT_MS = 86_400_000;

interface KeyOptions {
  readonly json?: true;
  readonly name: string;
  readonly expiresAt?: Date;
  readonly plan: Plan;
  readonly perMinute?: number;
  readonly perDay?: number;
  readonly overlap: number;
}

interface KeyCommand {
  readonly description: string;
  /** What `--json` prints. */
  readonly json: string;
  readonly options?: readonly Option[];
  readonly privileges: TableAccess['privileges'];
  /** `change`: it is committed when it is printed. `new key`: it is printed before it is committed. */
  readonly prints: 'records' | 'change' | 'new key';
  /** @param id of the key of the argument; without a key there is no argument */
  readonly run: (
    ...args: [admin: ApiKeysAdmin, options: KeyOptions, id: string]
  ) => Promise<readonly [document: unknown, text: string] | undefined>;
}

const QUOTAS = [
  new Option('--plan <plan>', 'free, pro, business or enterprise').argParser(plan).makeOptionMandatory(),
  new Option('--per-minute <n>', 'requests per minute (enterprise only)').argParser(integer(1)),
  new Option('--per-day <n>', 'requests per day (enterprise only)').argParser(integer(1)),
];
const NAME = new Option('--name <name>', 'name of the holder').argParser(keyName).makeOptionMandatory();
const EXPIRES_AT = new Option('--expires-at <time>', 'expiry time, like 2027-01-31T12:00:00Z').argParser(futureTime);
const OVERLAP = new Option('--overlap <duration>', 'how long the old key stays valid, like 30m, 24h, 7d or 0')
  .argParser(duration)
  .default(OVERLAP_DEFAULT_MS, '24h');

const COMMANDS: Readonly<Record<string, KeyCommand>> = {
  issue: {
    description: 'issue a key; it is printed once',
    json: '{"id", "key", "expiresAt"}',
    options: [...QUOTAS, NAME, EXPIRES_AT],
    privileges: ['SELECT', 'INSERT'],
    prints: 'new key',
    run: (admin, options) =>
      printNewKey(options, (deliver) => admin.issue({ ...options, ...choiceOf(options) }, deliver)),
  },
  list: {
    description: 'list all keys, the newest first; the remaining requests of today need REDIS_URL',
    json: 'an array of objects',
    privileges: ['SELECT'],
    prints: 'records',
    run: async (admin) => {
      const { keyTable, viewsOf } = await import('./key-view.js');
      const views = await viewsOf(await admin.list());
      return [views, keyTable(views)];
    },
  },
  'show <id>': {
    description: 'show one key',
    json: 'the key as an object with the fields of "keys list"',
    privileges: ['SELECT'],
    prints: 'records',
    run: async (admin, _options, id) => {
      const { keyDetails, viewsOf } = await import('./key-view.js');
      const [view] = await viewsOf([await admin.find(id)]);
      return view && [view, keyDetails(view)];
    },
  },
  'revoke <id>': {
    description: 'revoke a key permanently',
    json: '{"id", "revoked", "successorId"}',
    privileges: ['SELECT', 'UPDATE'],
    prints: 'change',
    run: async (admin, _options, id) => {
      const { revoked, successorId } = await admin.revoke(id);
      const successor = successorId === null ? '' : ` Its successor ${successorId} is not affected.`;
      const text = `The key ${id} ${revoked ? 'is revoked' : 'was revoked already'}.${successor}`;
      return [{ id, revoked, successorId }, text];
    },
  },
  'rotate <id>': {
    description: 'issue a successor of a key, which is printed once; the old key expires after the overlap',
    json: '{"id", "key", "expiresAt"}',
    options: [OVERLAP],
    privileges: ['SELECT', 'INSERT', 'UPDATE'],
    prints: 'new key',
    run: (admin, options, id) => printNewKey(options, (deliver) => admin.rotate(id, options.overlap, deliver)),
  },
  'set-plan <id>': {
    description: 'change the plan of a key',
    json: 'the key as an object',
    options: QUOTAS,
    privileges: ['SELECT', 'UPDATE'],
    prints: 'change',
    run: async (admin, options, id) => {
      const record = await admin.setPlan(id, choiceOf(options));
      return [record, `The key ${id} has the plan ${record.plan}.`];
    },
  },
  'unban <id>': {
    description: 'end the temporary ban of a key in every running service',
    json: '{"id"}',
    privileges: ['SELECT'],
    prints: 'change',
    run: async (admin, _options, id) => {
      const { redisUrls } = await import('./command-database.js');
      const { liftBanInRedis } = await import('../rate-limit/redis-admin.js');
      const urls = redisUrls();
      await admin.find(id);
      if (urls.length > 0) {
        await liftBanInRedis(urls, id);
      }
      await admin.notifyUnbanned(id);
      return [{ id }, `The key ${id} is not banned.`];
    },
  },
};

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
  addUsageCommand(keys);
  for (const [usage, command] of Object.entries(COMMANDS)) {
    const [name = '', id] = usage.split(' ');
    const added = keys.command(name).description(command.description).option('--json', `print ${command.json}`);
    for (const option of command.options ?? []) {
      added.addOption(option);
    }
    if (id === undefined) {
      added.action((options: KeyOptions) => runKeyCommand(command, options));
    } else {
      added
        .addArgument(new Argument(id, 'id of the key, or its first 8 characters').argParser(keyId))
        .action((key: string, options: KeyOptions) => runKeyCommand(command, options, key));
    }
  }
}

/** Imports the database client only when a command runs, so that --help is fast. */
async function runKeyCommand(
  { privileges, prints, run }: KeyCommand,
  options: KeyOptions,
  key?: string,
): Promise<void> {
  rejectWrongQuotas(options);
  if (prints === 'new key' && isDiscarded()) {
    throw new UsageError('Stdout is closed or discarded, so the new key would be lost; no key was issued.');
  }
  const { withDatabase } = await import('./command-database.js');
  const { ApiKeysAdmin } = await import('../api-keys/api-keys.admin.js');
  const output = await withDatabase([{ table: 'api_keys', privileges }], async (db) => {
    const admin = new ApiKeysAdmin(db);
    return run(admin, options, key === undefined ? '' : await admin.idOf(key));
  });
  if (output !== undefined) {
    await (prints === 'change' ? printResult : print)(options.json, ...output);
  }
}

/** @throws {UsageError} when the quotas do not fit the plan */
function rejectWrongQuotas({ plan, perMinute, perDay }: Partial<KeyOptions>): void {
  const isCustom = plan !== undefined && PLAN_QUOTAS[plan] === CUSTOM_QUOTAS;
  if (isCustom && (perMinute === undefined || perDay === undefined)) {
    throw new UsageError(`The plan ${plan} has custom quotas: pass both --per-minute and --per-day.`);
  }
  if (!isCustom && (perMinute !== undefined || perDay !== undefined)) {
    throw new UsageError(`The plan ${plan} has published quotas: --per-minute and --per-day are for enterprise only.`);
  }
}

function choiceOf({ plan, perMinute, perDay }: KeyOptions): PlanChoice {
  return { plan, requestsPerMinute: perMinute, requestsPerDay: perDay };
}

/** Prints a new key before it is committed: a key that was not shown never becomes valid. */
async function printNewKey({ json }: KeyOptions, create: (deliver: Deliver) => Promise<IssuedKey>): Promise<undefined> {
  let printedId: string | undefined;
  try {
    await create(async (issued) => {
      const { id, key, expiresAt } = issued;
      const lines = [`id       ${id}`, `key      ${key}`, `expires  ${expiresAt?.toISOString() ?? 'never'}`];
      await print(json, issued, [...lines, '', 'Store the key now: it is not shown again.'].join('\n'));
      printedId = id;
    });
  } catch (error) {
    if (error instanceof OutputError) {
      throw new Error(`${error.message}, so no key was issued. Run the command again.`, { cause: error });
    }
    const check = `The printed key may be invalid: check with "petstore keys show ${printedId}".`;
    throw printedId === undefined ? error : new Error(`${messageOf(error)}. ${check}`, { cause: error });
  }
}
