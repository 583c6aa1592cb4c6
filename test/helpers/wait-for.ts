import { setTimeout as delay } from 'node:timers/promises';

/**
 * Waits for a condition to come true, and fails when it does not.
 * @param description what is waited for, for the failure
 */
export async function waitFor(
  condition: () => boolean | Promise<boolean>,
  description: string,
  { withinMs = 10_000 }: { withinMs?: number } = {},
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) {
      throw new Error(`Waited ${withinMs} ms in vain: ${description}`);
    }
    await delay(10);
  }
}
