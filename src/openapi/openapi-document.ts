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

/** Describes the interface as the code implements it. Addresses end in the version segment, so paths are relative to it. */
export function buildOpenApiDocument(app: INestApplication, urls: ServerUrls): OpenAPIObject {
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
    servers: serversOf(urls),
    paths: relativeToVersion(document.paths),
    components: {
      ...document.components,
      headers: HEADER_COMPONENTS,
      // Not by the builder's `addBearerAuth`, which calls every bearer token a JWT.
      securitySchemes: { [BEARER_SCHEME]: { type: 'http', scheme: 'bearer', description: BEARER_DESCRIPTION } },
    },
  };
}

function serversOf({ publicBaseUrl, stagingBaseUrl }: ServerUrls): NonNullable<OpenAPIObject['servers']> {
  const production =
    publicBaseUrl === undefined
      ? { url: `/${API_VERSION}`, description: 'The service that this document came from, local or in production' }
      : { url: publicBaseUrl, description: 'Production' };
  const staging = stagingBaseUrl === undefined ? [] : [{ url: stagingBaseUrl, description: 'Staging' }];
  return [production, ...staging].map((server) => ({ ...server, 'x-internal': false }));
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
