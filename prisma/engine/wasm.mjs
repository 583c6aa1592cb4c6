import { readFile } from 'node:fs/promises';
import * as bindings from '@prisma/schema-engine-wasm/schema_engine_bg';

/** The message of the engine's last panic. */
export const panic = { message: '' };

/**
 * Instantiates the engine. The entry point of the package imports the `.wasm` file as an ES module, which Node
 * supports only with a flag.
 *
 * @returns {Promise<typeof bindings>}
 */
export async function loadWasm() {
  // The engine's panic hook calls this global.
  Object.assign(globalThis, {
    PRISMA_WASM_PANIC_REGISTRY: {
      /** @param {string} message */
      set_message(message) {
        panic.message = message;
      },
    },
  });
  const file = new URL('schema_engine_bg.wasm', import.meta.resolve('@prisma/schema-engine-wasm/schema_engine_bg'));
  const { instance } = await WebAssembly.instantiate(await readFile(file), {
    './schema_engine_bg.js': /** @type {WebAssembly.ModuleImports} */ (/** @type {unknown} */ (bindings)),
  });
  bindings.__wbg_set_wasm(instance.exports);
  /** @type {() => void} */ (instance.exports['__wbindgen_start'])();
  return bindings;
}
