import { Argument, type Command } from 'commander';
import { ApiKeysAdmin, type IssuedKey, type KeyRecord } from '../api-keys/api-keys.admin.js';
import { connectPrisma } from '../prisma/connect-prisma.js';
import { loadConfig } from '../config/load-config.js';
import { liftBanInRedis } from '../rate-limit/lift-ban.js';
import type { Plan } from '../rate-limit/plans.js';
import { subjectOfKey } from '../rate-limit/subject.js';
import { duration, futureTime, keyId, keyName, plan, wholeNumber } from './arguments.js';
import { databaseUrl } from './database-url.js';
import { keyTable } from './key-table.js';

const OVERLAP_DEFAULT_MS = 86_400_000;

interface QuotaOptions {
  readonly perMinute?: number;
  readonly perDay?: number;
}

interface OutputOptions {
  readonly json: boolean;
}

export function addKeyCommands(program: Command): void {
  const keys = program.command('keys').description('administer API keys');
  const id = (): Argument => new Argument('<id>', 'the id of the key').argParser(keyId);

  withQuotas(keys.command('issue').description('make a key; it is shown once'))
    .requiredOption('--name <name>', 'whose key it is', keyName)
    .option('--expires-at <time>', 'when it stops working, like 2027-01-31T12:00:00Z', futureTime)
    .option('--json', 'print {"id", "key"}', false)
    .action(async (options: QuotaOptions & OutputOptions & { name: string; plan: Plan; expiresAt?: Date }) => {
      const { name, expiresAt } = options;
      printIssued(await withAdmin((admin) => admin.issue({ name, expiresAt, ...choiceOf(options) })), options);
    });

  keys
    .command('list')
    .description('show all keys, the newest first')
    .option('--json', 'print an array of objects', false)
    .action(async ({ json }: OutputOptions) => {
      const records = await withAdmin((admin) => admin.list());
      process.stdout.write(json ? `${JSON.stringify(records, null, 2)}\n` : keyTable(records, Date.now()));
    });

  keys
    .command('revoke')
    .description('make a key invalid at once and for good')
    .addArgument(id())
    .option('--json', 'print {"id", "revoked"}', false)
    .action(async (key: string, { json }: OutputOptions) => {
      const revoked = await withAdmin((admin) => admin.revoke(key));
      print(json, { id: key, revoked }, revoked ? `The key ${key} is revoked.` : `The key ${key} was revoked before.`);
    });

  keys
    .command('rotate')
    .description('make a successor of a key; it is shown once, and the old key runs out')
    .addArgument(id())
    .option(
      '--overlap <duration>',
      'how long the old key stays good, like 30m, 24h, 7d or 0 (default: 24h)',
      duration,
      OVERLAP_DEFAULT_MS,
    )
    .option('--json', 'print {"id", "key"}', false)
    .action(async (key: string, options: OutputOptions & { overlap: number }) => {
      printIssued(await withAdmin((admin) => admin.rotate(key, options.overlap)), options);
    });

  withQuotas(keys.command('set-plan').description('change the plan of a key'))
    .addArgument(id())
    .option('--json', 'print the key as an object', false)
    .action(async (key: string, options: QuotaOptions & OutputOptions & { plan: Plan }) => {
      const record: KeyRecord = await withAdmin((admin) => admin.setPlan(key, choiceOf(options)));
      print(options.json, record, `The key ${key} has the plan ${record.plan}.`);
    });

  keys
    .command('unban')
    .description('end the temporary ban of a key in every running service')
    .addArgument(id())
    .option('--json', 'print {"id"}', false)
    .action(async (key: string, { json }: OutputOptions) => {
      const { redisUrls } = loadConfig(process.env);
      await withAdmin(async (admin) => {
        await admin.find(key);
        if (redisUrls.length > 0) {
          await liftBanInRedis(redisUrls, subjectOfKey(key));
        }
        await admin.announceUnban(key);
      });
      print(json, { id: key }, `The key ${key} is not banned any more.`);
    });
}

function withQuotas(command: Command): Command {
  return command
    .requiredOption('--plan <plan>', 'free, pro, business or enterprise', plan)
    .option('--per-minute <n>', 'requests per minute (enterprise only)', wholeNumber(1))
    .option('--per-day <n>', 'requests per day (enterprise only)', wholeNumber(1));
}

function choiceOf({ plan, perMinute, perDay }: QuotaOptions & { plan: Plan }): {
  plan: Plan;
  requestsPerMinute: number | undefined;
  requestsPerDay: number | undefined;
} {
  return { plan, requestsPerMinute: perMinute, requestsPerDay: perDay };
}

async function withAdmin<T>(work: (admin: ApiKeysAdmin) => Promise<T>): Promise<T> {
  const connection = connectPrisma(await databaseUrl());
  try {
    return await work(new ApiKeysAdmin(connection.prisma));
  } finally {
    await connection.close();
  }
}

function print(json: boolean, document: unknown, text: string): void {
  process.stdout.write(json ? `${JSON.stringify(document, null, 2)}\n` : `${text}\n`);
}

function printIssued({ id, key }: IssuedKey, { json }: OutputOptions): void {
  print(json, { id, key }, `id   ${id}\nkey  ${key}\n\nThe key is shown this once; it is stored as a digest only.`);
}
