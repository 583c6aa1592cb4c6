import type { TestingModuleBuilder } from '@nestjs/testing';
import { CONFIG } from '../../src/config/config.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { ImageCache } from '../../src/orders/list/image-cache.js';
import { ListSnapshots } from '../../src/orders/list/list-snapshot.js';

/** A piece for each block: as many pieces of a few orders as usually of a large list. */
class ImagesOfSmallPieces extends ImageCache {
  protected override readonly pieceRowsMin = 1;
}

/** The option `override` of a service whose lists in memory have small pieces. */
export function withSmallPieces(module: TestingModuleBuilder): TestingModuleBuilder {
  const factory = (...args: ConstructorParameters<typeof ImageCache>): ImageCache => new ImagesOfSmallPieces(...args);
  return module.overrideProvider(ImageCache).useFactory({ factory, inject: [ListSnapshots, CONFIG, Metrics] });
}
