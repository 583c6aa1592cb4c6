import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Request } from 'express';

const PREFLIGHT_MAX_AGE_SECONDS = 600;

/** Whether a request is a CORS preflight of the Fetch standard, which carries no key. */
function isPreflight({ method, headers }: Request): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
}

/**
 * Lets web pages of some origins, perhaps of none, call the API and read its headers. Preflights get their response before the guards:
 * were they counted, a page's requests with a key would exhaust the limit of its address. Any other OPTIONS request goes on.
 * @param onPreflight called before the response to a preflight
 */
export function corsOptionsOf(
  origins: readonly string[],
  exposedHeaders: readonly string[],
  onPreflight: (req: Request) => void,
): Parameters<NestExpressApplication['enableCors']>[0] {
  // All request headers are allowed: traced pages and generated clients send their own.
  const options = {
    origin: [...origins],
    methods: ['GET', 'HEAD', 'DELETE'],
    exposedHeaders: origins.length === 0 ? [] : [...exposedHeaders],
    maxAge: PREFLIGHT_MAX_AGE_SECONDS,
  };
  const passed = { ...options, preflightContinue: true };
  return (req: Request, callback) => {
    if (isPreflight(req)) {
      onPreflight(req);
      callback(null, options);
    } else {
      callback(null, passed);
    }
  };
}
