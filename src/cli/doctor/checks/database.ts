import type { Check } from '../check.js';
import { error, notChecked, ok } from '../finding.js';

const READ_ONLY_REMEDY = 'Set DATABASE_URL to the primary server: cancels need to write.';

export const database: Check = {
  name: 'database',
  evaluate: ({ server }) => {
    if (!('value' in server)) {
      return server.finding ?? notChecked(server.reason);
    }
    const { address, database: name, isEmbedded, isStandby, isReadOnly } = server.value;
    const where = `${isEmbedded ? 'embedded, ' : ''}"${name}" at ${address}`;
    if (isStandby) {
      return error(`${where} is a standby, which is read-only`, READ_ONLY_REMEDY);
    }
    return isReadOnly
      ? error(
          `${where} is read-only by default_transaction_read_only`,
          `${READ_ONLY_REMEDY} If it is the primary, reset default_transaction_read_only for the server, database or role.`,
        )
      : ok(`${where}, writable`);
  },
};
