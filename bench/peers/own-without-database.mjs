// This service, except that a cancel succeeds without the database: the cost of HTTP, limits and keys alone.
import { createApp } from '../../dist/app.setup.js';
import { loadConfig } from '../../dist/config/config.js';
import { CancelBatcher } from '../../dist/orders/cancel-batcher.js';

const config = loadConfig(process.env);
const app = await createApp(config, { logger: false });
app.get(CancelBatcher).cancel = async () => 'cancelled';
await app.listen(config.port, config.host);
process.once('SIGTERM', () => process.exit(0));
