import type { TestingModuleBuilder } from '@nestjs/testing';
import { CONFIG } from '../../src/config/config.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { ListImages } from '../../src/orders/list/list-images.js';
import { ListSnapshots } from '../../src/orders/list/list-snapshot.js';

/** A piece for each block: as many pieces of a few orders as usually of a large list. */
class ImagesOfSmallPieces extends ListImages {
  protected override readonly pieceRowsMin = 1;
}

/** The option `override` of a service whose lists in memory have small pieces. */
export function withSmallPieces(module: TestingModuleBuilder): TestingModuleBuilder {
  const factory = (...args: ConstructorParameters<typeof ListImages>): ListImages => new ImagesOfSmallPieces(...args);
  return module.overrideProvider(ListImages).useFactory({ factory, inject: [ListSnapshots, CONFIG, Metrics] });
}
