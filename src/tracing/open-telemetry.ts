import { diag, DiagLogLevel } from '@opentelemetry/api';
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';
import { NodeSDK } from '@opentelemetry/sdk-node';
import { Logger } from '@nestjs/common';
import { withDeadline } from '../common/deadline.js';

/** How long a stop waits until the last spans have been exported. Milliseconds. */
const FLUSH_TIMEOUT_MS = 2_000;

const logger = new Logger('OpenTelemetry');

/**
 * Starts the OpenTelemetry SDK, which configures itself from the `OTEL_` variables of its specification. Importing this file loads the SDK.
 * @returns a function that exports the last spans. It never rejects: an unreachable receiver must not prevent a stop.
 */
export function startTracing(): () => Promise<void> {
  const sdk = new NodeSDK({
    // `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` take precedence.
    resource: defaultResource().merge(resourceFromAttributes({ 'service.name': 'petstore-orders' })),
    // Spans only: metrics are scraped, and logs are written to stdout.
    metricReaders: [],
    logRecordProcessors: [],
  });
  const warn = logger.warn.bind(logger);
  const debug = logger.debug.bind(logger);
  diag.setLogger(
    { error: warn, warn, info: debug, debug, verbose: debug },
    { logLevel: DiagLogLevel.INFO, suppressOverrideMessage: true },
  );
  sdk.start();
  return async () => {
    try {
      await withDeadline(sdk.shutdown(), FLUSH_TIMEOUT_MS);
    } catch (error) {
      logger.warn(`failed to export the last spans: ${String(error)}`);
    }
  };
}
