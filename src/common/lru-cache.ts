import { LRUCache } from 'lru-cache';

/**
 * A map that drops its least recently used entry when it holds more than a number of them. It takes memory for those that it holds:
 * with `max`, the package would allocate all of it at once, 2 MB and a few milliseconds of the start for 100,000 entries.
 */
export function lruCache<K extends string, V extends object | true>(entriesMax: number): LRUCache<K, V> {
  return new LRUCache({ maxSize: entriesMax, sizeCalculation: () => 1 });
}
