import type { INestApplication } from '@nestjs/common';
import type { OpenAPIObject } from '@nestjs/swagger';
import type { Config } from '../config/config.js';
import { API_VERSION } from '../http/paths.js';
import { describeApi } from './describe-api.js';

type ServerUrls = Pick<Config, 'publicBaseUrl' | 'stagingBaseUrl'>;

/** The first server in Swagger UI: the one that serves the page, unless its public address is configured. */
const THIS_SERVER = { url: `/${API_VERSION}`, description: 'This server' };

/**
 * Describes the interface as the code implements it. Addresses end in the version segment, so paths are relative to it.
 * @param served whether a running service serves the document, which then names this service first
 */
export function buildOpenApiDocument(
  app: INestApplication,
  urls: ServerUrls,
  { served }: { served: boolean },
): OpenAPIObject {
  return { ...describeApi(app), servers: serversOf(urls, served) };
}

type Servers = NonNullable<OpenAPIObject['servers']>;

function serversOf({ publicBaseUrl, stagingBaseUrl }: ServerUrls, served: boolean): Servers {
  const servers: Servers = [
    ...(served && publicBaseUrl === undefined ? [THIS_SERVER] : []),
    { url: publicBaseUrl ?? 'https://api.petstore.example/v1', description: 'Production' },
    { url: stagingBaseUrl ?? 'https://staging.api.petstore.example/v1', description: 'Staging' },
  ];
  return servers.map((server) => ({ ...server, 'x-internal': false }));
}
