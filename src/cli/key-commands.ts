import { type Command, Option } from 'commander';
import { ApiKeysAdmin, type Deliver, type PlanChoice } from '../api-keys/api-keys.admin.js';
import { type Plan, PLANS } from '../plans/plans.js';
import { duration, futureTime, integer, keyId, keyName, UsageError } from './arguments.js';
import { redisUrl, withDatabase } from './command-database.js';
import { keyDetails, keyTable, viewsOf } from './key-view.js';
import { isDiscarded, print, printResult, warn, writeOut } from './output.js';
import { addUsageCommand } from './usage-command.js';

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
  /** @param id of the key of the argument; empty without an argument */
  readonly run: (admin: ApiKeysAdmin, options: KeyOptions, id: string) => Promise<void>;
}

const QUOTAS = [
  new Option('--plan <plan>', 'plan of the key').choices(PLANS).makeOptionMandatory(),
  new Option('--per-minute <n>', 'requests per minute (enterprise only)').argParser(integer(1)),
  new Option('--per-day <n>', 'requests per day (enterprise only)').argParser(integer(1)),
];
const NAME = new Option('--name <name>', 'name of the holder').argParser(keyName).makeOptionMandatory();
const EXPIRES_AT = new Option('--expires-at <time>', 'expiry time of the new key, like 2027-01-31T12:00:00Z').argParser(
  futureTime,
);
const OVERLAP = new Option('--overlap <duration>', 'how long the old key stays valid, like 30m, 24h, 7d or 0')
  .argParser(duration)
  .default(OVERLAP_DEFAULT_MS, '24h');

const COMMANDS: Readonly<Record<string, KeyCommand>> = {
  issue: {
    description: 'issue a key; it is printed once',
    json: '{"id", "key", "expiresAt"}',
    options: [...QUOTAS, NAME, EXPIRES_AT],
    run: (admin, options) => {
      const key = { ...options, ...choiceOf(options) };
      return printNewKey(options, (deliver) => admin.issue(key, deliver));
    },
  },
  list: {
    description: "list all keys, the newest first; today's remaining requests and bans need REDIS_URL",
    json: 'an array of objects; "banned" is true, false, or null when bans are unknown: without REDIS_URL, or while Redis cannot be used',
    run: async (admin, { json }) => {
      const views = await viewsOf(await admin.list());
      await print(json, views, keyTable(views));
    },
  },
  'show <id>': {
    description: 'show one key',
    json: 'the key as an object with the fields of "keys list"',
    run: async (admin, { json }, id) => {
      for (const view of await viewsOf([await admin.find(id)])) {
        await print(json, view, keyDetails(view));
      }
    },
  },
  'revoke <id>': {
    description: 'revoke a key permanently',
    json: '{"id", "revoked", "successorId"}',
    run: async (admin, { json }, id) => {
      const { revoked, successorId } = await admin.revoke(id);
      const text = `The key ${id} ${revoked ? 'is revoked' : 'was revoked already'}.${noteOn(successorId)}`;
      await printResult(json, { id, revoked, successorId }, text);
    },
  },
  'rotate <id>': {
    description: 'issue a successor of a key and print it once; the old key expires after the overlap',
    json: '{"id", "key", "expiresAt"}',
    options: [OVERLAP, EXPIRES_AT],
    run: (admin, options, id) =>
      printNewKey(options, (deliver) => admin.rotate(id, options.overlap, options.expiresAt, deliver)),
  },
  'set-plan <id>': {
    description: 'change the plan of a key',
    json: 'the key as an object',
    options: QUOTAS,
    run: async (admin, options, id) => {
      const record = await admin.setPlan(id, choiceOf(options));
      const text = `The key ${id} has the plan ${record.plan}.${noteOn(record.successorId)}`;
      await printResult(options.json, record, text);
    },
  },
  'unban <id>': {
    description: 'end the temporary ban of a key in every running service',
    json: '{"id"}',
    run: async (admin, { json }, id) => {
      const url = await redisUrl();
      // First: while Redis is unavailable, each service decides with a ban of its own.
      await admin.notifyUnbanned(id);
      if (url !== undefined) {
        const { liftBanInRedis } = await import('../rate-limit/redis-admin.js');
        await liftBanInRedis(url, id);
      }
      const done = url === undefined ? 'is lifted in every running service' : 'is lifted';
      await printResult(json, { id }, `Any ban of the key ${id} ${done}; its limits still apply.`);
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
  for (const [usage, { description, json, options = [], run }] of Object.entries(COMMANDS)) {
    const command = keys.command(usage).description(description).option('--json', `print ${json}`);
    for (const argument of command.registeredArguments) {
      argument.argParser(keyId).description = 'id of the key, or at least its first 8 characters';
    }
    for (const option of options) {
      command.addOption(option);
    }
    command.action(() =>
      withDatabase(async ({ prisma }) => {
        const admin = new ApiKeysAdmin(prisma);
        const [prefix] = command.processedArgs as string[];
        await run(admin, command.opts(), prefix === undefined ? '' : (await admin.find(prefix)).id);
      }),
    );
  }
}

function noteOn(successorId: string | null): string {
  return successorId === null ? '' : ` Its successor ${successorId} is not affected.`;
}

/** @throws {UsageError} when the quotas do not fit the plan */
function choiceOf({ plan, perMinute, perDay }: KeyOptions): PlanChoice {
  const isCustom = plan === 'enterprise';
  if ([perMinute, perDay].some((quota) => (quota !== undefined) !== isCustom)) {
    throw new UsageError(
      `Pass both --per-minute and --per-day for enterprise, and neither for a plan with published quotas (got ${plan}).`,
    );
  }
  return { plan, requestsPerMinute: perMinute, requestsPerDay: perDay };
}

/** Prints a new key before it is committed: a key that was not shown never becomes valid. */
async function printNewKey({ json }: KeyOptions, create: (deliver: Deliver) => Promise<void>): Promise<void> {
  if (isDiscarded()) {
    throw new UsageError('Stdout is closed or discarded, so the new key would be lost; no key was issued.');
  }
  let printedId: string | undefined;
  try {
    await create(async (issued) => {
      const { id, key, expiresAt } = issued;
      const lines = [`id       ${id}`, `key      ${key}`, `expires  ${expiresAt?.toISOString() ?? 'never'}`];
      const text = [...lines, '', 'Store the key now: it is not shown again.'].join('\n');
      const failure = await writeOut(json, issued, text);
      if (failure !== undefined) {
        throw new Error(`Cannot write to stdout (${failure}), so no key was issued. Run the command again.`);
      }
      printedId = id;
    });
  } catch (error) {
    if (printedId !== undefined) {
      warn(`The printed key may be invalid: check with "petstore keys show ${printedId}".`);
    }
    throw error;
  }
}
