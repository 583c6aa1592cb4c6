import { LRUCache } from 'lru-cache';
import { isKeySubject } from './subject.js';

/**
 * Entries for keys, and for addresses; the least recently used is evicted first. Far above the number of keys that call
 * in one day; it bounds the memory that a flood from many addresses can use (about 300 bytes each).
 */
const SUBJECTS_MAX = 100_000;

/** An LRU cache by subject. Keys and addresses are separate, so a flood from many addresses evicts no key. */
export class SubjectCache<T extends object> {
  readonly #keys = new LRUCache<string, T>({ max: SUBJECTS_MAX });
  readonly #addresses = new LRUCache<string, T>({ max: SUBJECTS_MAX });

  get(subject: string): T | undefined {
    return this.#cacheOf(subject).get(subject);
  }

  set(subject: string, value: T): void {
    this.#cacheOf(subject).set(subject, value);
  }

  delete(subject: string): void {
    this.#cacheOf(subject).delete(subject);
  }

  #cacheOf(subject: string): LRUCache<string, T> {
    return isKeySubject(subject) ? this.#keys : this.#addresses;
  }
}
