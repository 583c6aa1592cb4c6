// In the bundle, stands in for the two modules that Prisma's generated client loads when it connects: the query compiler's
// JavaScript and, as base64, its WebAssembly. Compiling that takes 0.2 s and 60 MB, and raw queries need neither; the service
// sends only raw queries.

/** A module that only exports the function `__wbindgen_start`, which Prisma calls when it has loaded the WebAssembly. */
export const wasm = 'AGFzbQEAAAABBAFgAAADAgEABxQBEF9fd2JpbmRnZW5fc3RhcnQAAAoEAQIACw==';

/** The exports that Prisma hands over are those of the module above. */
export function __wbg_set_wasm() {
  // There is nothing to set.
}

export class QueryCompiler {
  compile() {
    throw new Error('The bundle has no query compiler: send raw queries only.');
  }

  free() {
    // There is nothing to free.
  }
}
