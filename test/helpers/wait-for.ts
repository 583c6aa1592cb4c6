import { setTimeout as delay } from 'node:timers/promises';

/**
 * Polls a condition until it is true, and fails when it does not become true in time.
 * @param description the condition, for the error message; a function is called at the timeout
 * @param options.withinMs by default enough for a busy machine, and less than what would end a connection or a list anyway:
 *   LIST_STALL_SECONDS and the keep-alive timeout
 */
export async function waitFor(
  condition: () => boolean | Promise<boolean>,
  description: string | (() => string),
  { withinMs = 30_000 }: { withinMs?: number } = {},
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) {
      throw new Error(
        `Timed out after ${withinMs} ms waiting until ${typeof description === 'string' ? description : description()}`,
      );
    }
    await delay(10);
  }
}
