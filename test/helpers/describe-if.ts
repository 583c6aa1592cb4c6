type Name = string | number | ((...args: never[]) => unknown);

/**
 * `describe` where what the tests need is there; elsewhere it says loudly what is left out.
 * @param needed what that is, for the list of what is left to do
 * @param missing what is said of it, as the rest of `LEFT OUT, …`
 */
export function describeIf(isThere: boolean, needed: string, missing: string): typeof describe {
  return isThere
    ? describe
    : Object.assign((name: Name) => {
        process.stderr.write(`\n!!! LEFT OUT, ${missing}: ${String(name)}\n\n`);
        it.todo(`needs ${needed}: ${String(name)}`);
      }, describe);
}
