import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { Config } from '../config/config.js';
import { ErrorSchema } from '../errors/error.schema.js';
import { API_VERSION } from '../http/api-path.js';
import { Order } from '../orders/order.schema.js';
import { API_DESCRIPTION } from './api-description.js';

/** The version of the interface description, which is not the version of this software. */
const INTERFACE_VERSION = '1.0.0';

type ServerUrls = Pick<Config, 'publicBaseUrl' | 'stagingBaseUrl'>;

/** Describes the interface as the code implements it. Addresses end in the version segment, so paths are relative to it. */
export function buildOpenApiDocument(app: INestApplication, urls: ServerUrls): OpenAPIObject {
  const builder = new DocumentBuilder()
    .setTitle('Pet Store: Store Orders')
    .setVersion(INTERFACE_VERSION)
    .setDescription(API_DESCRIPTION)
    .addTag('store', 'Orders placed in the store.')
    .addServer(urls.publicBaseUrl ?? `/${API_VERSION}`, 'Production');
  if (urls.stagingBaseUrl !== undefined) {
    builder.addServer(urls.stagingBaseUrl, 'Staging');
  }
  const config = builder
    .addBearerAuth({ type: 'http', scheme: 'bearer', description: 'An API key, as issued by the operator.' })
    .build();
  const document = SwaggerModule.createDocument(app, config, { extraModels: [Order, ErrorSchema] });
  return { ...document, paths: relativeToVersion(document.paths) };
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
