import type { TestingModuleBuilder } from '@nestjs/testing';
import { CONFIG } from '../../src/config/config.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { ListImages } from '../../src/orders/list/list-images.js';
import { ListSnapshots } from '../../src/orders/list/list-snapshot.js';

type Create = (...args: ConstructorParameters<typeof ListImages>) => ListImages;

/** The option `override` of a service whose lists in memory are other ones. */
export function withListImages(create: Create): (module: TestingModuleBuilder) => TestingModuleBuilder {
  const inject = [ListSnapshots, CONFIG, Metrics];
  return (module) => module.overrideProvider(ListImages).useFactory({ factory: create, inject });
}

/** A piece for each block: as many pieces of a few orders as usually of a large list. */
export class ImagesOfSmallPieces extends ListImages {
  protected override readonly pieceRowsMin = 1;
}
