import { hashKey } from '../../src/api-keys/key-format.js';
import { DatabaseListener } from '../../src/database/database-listener.js';
import { API_KEY_CHANGED_CHANNEL } from '../../src/database/notification-channels.js';
import { insertKey } from './builders.js';
import type { TestService } from './test-service.js';
import { waitFor } from './wait-for.js';

/**
 * Changes a key, and waits until the service has been notified of that.
 * @param change resolves with the key
 */
export async function untilNotified(service: TestService, change: () => Promise<string>): Promise<void> {
  const listener = service.app.get(DatabaseListener);
  const notified = new Set<string>();
  const note = (keyHash: string): unknown => notified.add(keyHash);
  listener.on(API_KEY_CHANGED_CHANNEL, note);
  const key = await change();
  await waitFor(() => notified.has(hashKey(key)), 'the service is notified of the key');
  listener.off(API_KEY_CHANGED_CHANNEL, note);
}

/** Inserts a key whose notification has arrived: a later one would have the service look the key up again. */
export async function insertNotifiedKey(service: TestService): Promise<{ id: string; key: string }> {
  let inserted = { id: '', key: '' };
  await untilNotified(service, async () => {
    inserted = await insertKey(service.db);
    return inserted.key;
  });
  return inserted;
}
