import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The archive_command of docs/operations.md for another folder. */
export function documentedArchiveCommand(folder: string): string {
  const page = readFileSync(join(__dirname, '..', '..', 'docs', 'operations.md'), 'utf8');
  const [, command = ''] = /'archive_command=(.*?)'/s.exec(page) ?? [];
  return command.replaceAll('/backup', folder).replaceAll(/\s+/g, ' ');
}
