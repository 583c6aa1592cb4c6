import { reportError } from './cli/report-error.js';
import { serve } from './cli/serve.js';

// Runs the service; the same as `petstore serve`.
try {
  await serve();
} catch (error) {
  process.exitCode = reportError(error);
}
