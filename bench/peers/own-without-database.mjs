// Our own service, assembled as it is, except that a cancel succeeds without asking the database: what HTTP, limits and
// keys cost. The share that is left of this rate with the database is what the database costs.
import { createApp } from '../../dist/app.setup.js';
import { loadConfig } from '../../dist/config/load-config.js';
import { CancelBatcher } from '../../dist/orders/cancel-batcher.js';

const config = loadConfig(process.env);
const app = await createApp(config, { logger: false });
app.get(CancelBatcher).cancel = async () => 'cancelled';
await app.listen(config.port, config.host);
process.once('SIGTERM', () => process.exit(0));
