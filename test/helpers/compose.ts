import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load, YAML11_SCHEMA } from 'js-yaml';

const FILE = join(__dirname, '..', '..', 'docker-compose.yml');

export interface ComposeService {
  readonly image: string;
  readonly build?: { readonly args: Readonly<Record<string, string>> };
  readonly command?: readonly string[];
  readonly init?: boolean;
  readonly networks?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

/** The services of docker-compose.yml, with `${NAME:-default}` replaced in its values as Compose does with these variables. */
export function composeServices(variables: Readonly<Record<string, string>> = {}): Record<string, ComposeService> {
  const parsed = JSON.stringify(load(readFileSync(FILE, 'utf8'), { schema: YAML11_SCHEMA }));
  const replaced = parsed.replace(
    /\$\{(\w+):-([^}]*)\}/g,
    (_all, name: string, byDefault: string) => variables[name] ?? byDefault,
  );
  return (JSON.parse(replaced) as { services: Record<string, ComposeService> }).services;
}
