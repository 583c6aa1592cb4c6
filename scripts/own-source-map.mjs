import { decode, encode } from '@jridgewell/sourcemap-codec';

/**
 * A source map without the mappings of packages. Node reads the maps at start, and ours are a tenth of all.
 * @param {string} text @returns {string}
 */
export function ownSourceMap(text) {
  const map = JSON.parse(text);
  const isOwn = map.sources.map((source) => !source.includes('node_modules/'));
  const lines = decode(map.mappings).map((segments) => {
    const kept = [];
    for (const segment of segments) {
      const [column, source] = segment;
      if (source !== undefined && isOwn[source]) {
        kept.push(segment.slice(0, 4));
      } else if (kept.at(-1)?.length !== 1) {
        // Ends the mapping of our code.
        kept.push([column]);
      }
    }
    return kept;
  });
  const sources = map.sources.map((source, index) => (isOwn[index] ? source : ''));
  return JSON.stringify({ ...map, sources, names: [], mappings: encode(lines) });
}
