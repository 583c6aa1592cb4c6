import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { API_VERSION } from '../http/paths.js';
import { OrdersModule } from '../orders/orders.module.js';
import { API_DESCRIPTION, BEARER_SCHEME } from './api-description.js';
import { HEADER_COMPONENTS } from './api-responses.js';
import { describeOrders } from './order-operations.js';

/** The version of the interface description, which is not the version of this software. */
const INTERFACE_VERSION = '1.0.0';

const BEARER_DESCRIPTION = 'An API key (`pst_…`), as issued by the operator of the store. Paste it without "Bearer".';

/**
 * Generates the document, without servers, from the controllers. The bundle for production contains the result instead of
 * this file: see scripts/bundle.mjs.
 */
export function describeApi(app: INestApplication): OpenAPIObject {
  const config = new DocumentBuilder()
    .setTitle('Pet Store: Store Orders')
    .setVersion(INTERFACE_VERSION)
    .setDescription(API_DESCRIPTION)
    .setLicense('MIT', 'https://spdx.org/licenses/MIT.html')
    .addTag('store', 'Orders placed in the store.')
    .build();
  describeOrders();
  const document = SwaggerModule.createDocument(app, config, { include: [OrdersModule] });
  return {
    ...document,
    paths: relativeToVersion(document.paths),
    components: {
      ...document.components,
      headers: HEADER_COMPONENTS,
      // The builder's `addBearerAuth` would describe every bearer token as a JWT.
      securitySchemes: { [BEARER_SCHEME]: { type: 'http', scheme: 'bearer', description: BEARER_DESCRIPTION } },
    },
  };
}

function relativeToVersion(paths: OpenAPIObject['paths']): OpenAPIObject['paths'] {
  return Object.fromEntries(Object.entries(paths).map(([path, item]) => [path.slice(API_VERSION.length + 1), item]));
}
