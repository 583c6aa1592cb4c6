import { LRUCache } from 'lru-cache';
import { isKeySubject } from './subject.js';

/**
 * How many keys, and how many addresses, are remembered; the least recently seen is forgotten first. Far above the number
 * of keys that call in one day; it bounds what a flood from ever new addresses can cost (about 300 bytes each).
 */
const SUBJECTS_MAX = 100_000;

/** Remembers something about each subject. Keys have room of their own: no flood of addresses makes one forgotten. */
export class SubjectCache<T extends object> {
  readonly #keys = new LRUCache<string, T>({ max: SUBJECTS_MAX });
  readonly #addresses = new LRUCache<string, T>({ max: SUBJECTS_MAX });

  get(subject: string): T | undefined {
    return this.#roomOf(subject).get(subject);
  }

  set(subject: string, value: T): void {
    this.#roomOf(subject).set(subject, value);
  }

  delete(subject: string): void {
    this.#roomOf(subject).delete(subject);
  }

  #roomOf(subject: string): LRUCache<string, T> {
    return isKeySubject(subject) ? this.#keys : this.#addresses;
  }
}
