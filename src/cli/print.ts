/** What a command prints on stdout: one JSON document with `--json`, a text for people otherwise. */
export function print(json: boolean | undefined, document: unknown, text: string): void {
  process.stdout.write(json === true ? `${JSON.stringify(document, null, 2)}\n` : `${text}\n`);
}
