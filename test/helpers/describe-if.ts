type Name = string | number | ((...args: never[]) => unknown);

/**
 * `describe` where a requirement is met; elsewhere it prints a message and lists the skipped block as `todo`.
 * @param requirement what the tests need and how to install it, such as `redis-server (Debian: apt install redis-server)`
 */
export function describeIf(isMet: boolean, requirement: string): typeof describe {
  return isMet
    ? describe
    : Object.assign((name: Name) => {
        process.stderr.write(`\nSKIPPED: "${String(name)}" requires ${requirement}\n\n`);
        it.todo(`${String(name)} (skipped: requires ${requirement})`);
      }, describe);
}
