import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { Config } from '../config/config.js';
import { API_VERSION } from '../http/paths.js';
import { API_DESCRIPTION, BEARER_SCHEME } from './api-description.js';
import { HEADER_COMPONENTS } from './api-responses.js';

type ServerUrls = Pick<Config, 'publicBaseUrl' | 'stagingBaseUrl'>;

/** The version of the interface description, which is not the version of this software. */
const INTERFACE_VERSION = '1.0.0';

const BEARER_DESCRIPTION = 'An API key (`pst_…`), as issued by the operator of the store. Paste it without "Bearer".';

/** No server is for internal clients only; the OpenAPI linter wants each to say so. */
const PUBLIC = { 'x-internal': false };

/** Describes the interface as the code implements it. Addresses end in the version segment, so paths are relative to it. */
export function buildOpenApiDocument(
  app: INestApplication,
  { publicBaseUrl, stagingBaseUrl }: ServerUrls,
): OpenAPIObject {
  const config = new DocumentBuilder()
    .setTitle('Pet Store: Store Orders')
    .setVersion(INTERFACE_VERSION)
    .setDescription(API_DESCRIPTION)
    .setLicense('MIT', 'https://spdx.org/licenses/MIT.html')
    .addTag('store', 'Orders placed in the store.')
    // Not `addBearerAuth`, which would describe every bearer token as a JWT.
    .addSecurity(BEARER_SCHEME, { type: 'http', scheme: 'bearer', description: BEARER_DESCRIPTION });
  config.addServer(publicBaseUrl ?? 'https://api.petstore.example/v1', 'Production', undefined, PUBLIC);
  config.addServer(stagingBaseUrl ?? 'https://staging.api.petstore.example/v1', 'Staging', undefined, PUBLIC);
  const document = SwaggerModule.createDocument(app, config.build());
  const { schemas = {}, securitySchemes = {} } = document.components ?? {};
  return {
    ...document,
    paths: relativeToVersion(document.paths),
    components: { schemas, headers: HEADER_COMPONENTS, securitySchemes },
  };
}

function relativeToVersion(paths: OpenAPIObject['paths']): OpenAPIObject['paths'] {
  return Object.fromEntries(Object.entries(paths).map(([path, item]) => [path.slice(API_VERSION.length + 1), item]));
}
