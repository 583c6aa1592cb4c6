/** Runs `work` while these properties of `process`, such as `stdout`, have other values. */
export function withProcess<T>(properties: Readonly<Record<string, unknown>>, work: () => Promise<T>): Promise<T>;
