/**
 * Runs `work` while these properties of `process`, such as `stdout`, have other values.
 * @template T
 * @param {Readonly<Record<string, unknown>>} properties
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withProcess(properties, work) {
  const original = Object.keys(properties).map((name) => [name, Object.getOwnPropertyDescriptor(process, name)]);
  try {
    for (const [name, value] of Object.entries(properties)) {
      Object.defineProperty(process, name, { configurable: true, enumerable: true, value });
    }
    return await work();
  } finally {
    Object.defineProperties(process, Object.fromEntries(original));
  }
}
