/** What a command prints on stdout: one JSON document with `--json`, a text for people otherwise. */
export function print(json: boolean, document: unknown, text: string): void {
  process.stdout.write(json ? `${JSON.stringify(document, null, 2)}\n` : `${text}\n`);
}
