import type { ApiKeysAdmin } from '../api-keys/api-keys.admin.js';
import { liftBanInRedis } from '../rate-limit/redis-admin.js';
import { subjectOfKey } from '../rate-limit/subject.js';

/**
 * Ends the temporary ban of a key: in the Redis that the replicas share, and in the memory of every running service.
 * @param redisUrls empty when each service counts in its own memory
 * @throws {KeyAdministrationError} when the key does not exist
 * @throws {Error} when Redis does not confirm it
 */
export async function liftKeyBan(keyId: string, admin: ApiKeysAdmin, redisUrls: readonly string[]): Promise<void> {
  await admin.find(keyId);
  if (redisUrls.length > 0) {
    await liftBanInRedis(redisUrls, subjectOfKey(keyId));
  }
  await admin.notifyUnbanned(keyId);
}
