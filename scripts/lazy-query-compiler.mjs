// In the bundle, stands in for the two modules that Prisma's generated client loads when it connects: the query compiler's
// JavaScript and, as base64, its WebAssembly. Raw queries need neither, and the service sends only raw queries. Compiling
// the WebAssembly takes 0.2 s and 60 MB, so it is left to the first query that is not raw. Such a query is compiled
// synchronously, hence `readFileSync`.
import { readFileSync } from 'node:fs';
import * as runtime from '@prisma/client/runtime/query_compiler_fast_bg.postgresql.mjs';
import wasmFile from 'query-compiler.wasm';

/** A module that only exports the function `__wbindgen_start`, which Prisma calls when it has loaded the WebAssembly. */
export const wasm = 'AGFzbQEAAAABBAFgAAADAgEABxQBEF9fd2JpbmRnZW5fc3RhcnQAAAoEAQIACw==';

/** The exports that Prisma hands over are those of the module above. */
export function __wbg_set_wasm() {
  // The real ones are set by load().
}

let loaded = false;

function load() {
  if (!loaded) {
    const module = new WebAssembly.Module(readFileSync(new URL(wasmFile, import.meta.url)));
    const imports = Object.fromEntries(WebAssembly.Module.imports(module).map((entry) => [entry.module, runtime]));
    const { exports } = new WebAssembly.Instance(module, imports);
    runtime.__wbg_set_wasm(exports);
    exports.__wbindgen_start();
    loaded = true;
  }
}

/** The query compiler, as far as Prisma's runtime calls it. */
export class QueryCompiler {
  #options;
  #compiler;

  constructor(options) {
    this.#options = options;
  }

  compile(query) {
    return this.#loaded().compile(query);
  }

  compileBatch(queries) {
    return this.#loaded().compileBatch(queries);
  }

  free() {
    this.#compiler?.free();
  }

  #loaded() {
    load();
    return (this.#compiler ??= new runtime.QueryCompiler(this.#options));
  }
}
