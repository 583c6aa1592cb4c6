import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { Config } from '../config/config.js';
import { API_VERSION } from '../http/api-path.js';
import { API_DESCRIPTION } from './api-description.js';
import { HEADER_COMPONENTS } from './api-headers.js';

/** The version of the interface description, which is not the version of this software. */
const INTERFACE_VERSION = '1.0.0';

/** The name of the security scheme in the document, which `@ApiBearerAuth()` refers to. */
export const BEARER_SCHEME = 'bearer';

const BEARER_DESCRIPTION = 'An API key (`pst_…`), as issued by the operator of the store. Paste it without "Bearer".';

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
  const config = new DocumentBuilder()
    .setTitle('Pet Store: Store Orders')
    .setVersion(INTERFACE_VERSION)
    .setDescription(API_DESCRIPTION)
    .setLicense('MIT', 'https://spdx.org/licenses/MIT.html')
    .addTag('store', 'Orders placed in the store.')
    .build();
  const document = SwaggerModule.createDocument(app, config);
  return {
    ...document,
    servers: serversOf(urls, served),
    paths: relativeToVersion(document.paths),
    components: {
      ...document.components,
      headers: HEADER_COMPONENTS,
      // The builder's `addBearerAuth` would describe every bearer token as a JWT.
      securitySchemes: { [BEARER_SCHEME]: { type: 'http', scheme: 'bearer', description: BEARER_DESCRIPTION } },
    },
  };
}

type Servers = NonNullable<OpenAPIObject['servers']>;

function serversOf({ publicBaseUrl, stagingBaseUrl }: ServerUrls, served: boolean): Servers {
  const servers: Servers = [
    ...(served && publicBaseUrl === undefined ? [THIS_SERVER] : []),
    publicBaseUrl === undefined
      ? serverWithVariable('Production', 'productionHost', 'api.petstore.example')
      : { url: publicBaseUrl, description: 'Production' },
    stagingBaseUrl === undefined
      ? serverWithVariable('Staging', 'stagingHost', 'staging.api.petstore.example')
      : { url: stagingBaseUrl, description: 'Staging' },
  ];
  return servers.map((server) => ({ ...server, 'x-internal': false }));
}

/** Swagger UI tells servers apart by their URL, so the variables have different names. */
function serverWithVariable(description: string, variable: string, host: string): Servers[number] {
  return {
    url: `https://{${variable}}/${API_VERSION}`,
    description,
    variables: { [variable]: { default: host, description: 'The host that the operator of the store names.' } },
  };
}

function relativeToVersion(paths: OpenAPIObject['paths']): OpenAPIObject['paths'] {
  const prefix = `/${API_VERSION}`;
  return Object.fromEntries(
    Object.entries(paths).map(([path, item]) => [
      path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path,
      item,
    ]),
  );
}
