import { readFile } from 'node:fs/promises';
import * as bindings from '@prisma/schema-engine-wasm/schema_engine_bg';

/**
 * Instantiates the engine. The entry point of the package imports the `.wasm` file as an ES module, which Node
 * supports only with a flag.
 *
 * @param {(message: string) => void} onPanic
 * @returns {Promise<typeof bindings>}
 */
export async function loadWasm(onPanic) {
  // The engine's panic hook calls this global.
  Object.assign(globalThis, { PRISMA_WASM_PANIC_REGISTRY: { set_message: onPanic } });
  const file = new URL('schema_engine_bg.wasm', import.meta.resolve('@prisma/schema-engine-wasm/schema_engine_bg'));
  const { instance } = await WebAssembly.instantiate(await readFile(file), {
    './schema_engine_bg.js': /** @type {WebAssembly.ModuleImports} */ (/** @type {unknown} */ (bindings)),
  });
  bindings.__wbg_set_wasm(instance.exports);
  /** @type {() => void} */ (instance.exports['__wbindgen_start'])();
  return bindings;
}
