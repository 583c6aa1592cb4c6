/** @type {import('./run.mjs').Defect} */
export default {
  promise: 3,
  file: 'src/orders/list/order-list.responder.ts',
  find: "  let before = '[';\n  let next = chunks[0] && inflate(chunks[0]);\n  for (let index = 1; next !== undefined; index++) {\n    const plain: Buffer = await next;\n    const chunk = chunks[index];\n    next = chunk && inflate(chunk);\n    // Handled where it is awaited.\n    next?.catch(() => undefined);\n    yield Buffer.from(before);\n    yield plain;\n    before = ',';\n  }\n  yield Buffer.from(']');\n",
  replace:
    "  const plain = await Promise.all(chunks.map((chunk) => inflate(chunk)));\n  const elements = plain.flatMap((chunk, index) => (index === 0 ? [chunk] : [Buffer.from(','), chunk]));\n  yield Buffer.concat([Buffer.from('['), ...elements, Buffer.from(']')]);\n",
  suites: ['production/list-memory'],
};
