/** Who was met before, in a file of any length: digests instead of addresses. */
import { hash } from "node:crypto";

/** The set of people met so far in a file. */
export interface SeenPeople {
  readonly size: number;
  /** Whether the person was met before. */
  has(person: string): boolean;
  /** Remembers the person. */
  add(person: string): void;
}

/**
 * Creates a set that costs 8 to 32 bytes for each person, however long the texts are.
 *
 * It keeps 64 bits of a SHA-256 digest of each text, in an open-addressed table: among a million people the chance
 * that any two are taken for one is below one in ten million, and nobody can construct such a pair cheaply enough
 * to be worth it.
 */
export function createSeenPeople(): SeenPeople {
  // Two numbers for each slot; a slot of two zeros is free.
  let table = new Uint32Array(2 * 1024);
  let size = 0;
  let high = 0;
  let low = 0;
  let digested: string | undefined;

  function digest(person: string): void {
    // Whoever is added was asked for just before.
    if (person === digested) return;
    digested = person;
    const bytes = hash("sha256", person, "buffer");
    high = bytes.readUInt32LE(0);
    low = bytes.readUInt32LE(4) || 1;
  }

  /** The slot that holds the digest, or the free one where it would go. */
  function slotOf(slots: Uint32Array, wantedHigh: number, wantedLow: number): number {
    const mask = slots.length / 2 - 1;
    let slot = wantedHigh & mask;
    for (;;) {
      const foundLow = slots[2 * slot + 1];
      if (foundLow === 0 || (foundLow === wantedLow && slots[2 * slot] === wantedHigh)) return slot;
      slot = (slot + 1) & mask;
    }
  }

  function put(slots: Uint32Array, slot: number, putHigh: number, putLow: number): void {
    slots[2 * slot] = putHigh;
    slots[2 * slot + 1] = putLow;
  }

  function grow(): void {
    const larger = new Uint32Array(table.length * 2);
    for (let i = 0; i < table.length; i += 2) {
      const oldHigh = table[i] ?? 0;
      const oldLow = table[i + 1] ?? 0;
      if (oldLow !== 0) put(larger, slotOf(larger, oldHigh, oldLow), oldHigh, oldLow);
    }
    table = larger;
  }

  return {
    get size() {
      return size;
    },
    has(person) {
      digest(person);
      return table[2 * slotOf(table, high, low) + 1] !== 0;
    },
    add(person) {
      digest(person);
      const slot = slotOf(table, high, low);
      if (table[2 * slot + 1] !== 0) return;
      put(table, slot, high, low);
      size += 1;
      if (size * 2 > table.length / 2) grow();
    },
  };
}
