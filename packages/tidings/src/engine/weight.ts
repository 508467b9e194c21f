/** What things count against their owner, in bytes, and how a store's room is shared. SQLite's triggers say the same numbers. */

/** A job without its events and texts: its row and its places in the indexes. */
export const JOB_BYTES = 1_024;
/** An event or a value beside its text. */
export const ROW_BYTES = 192;

/** One item of a collection. */
export function weighItem(json: string): number {
  return Buffer.byteLength(json) + 1;
}

/** An event or a value. */
export function weighRow(json: string): number {
  return Buffer.byteLength(json) + ROW_BYTES;
}

/**
 * The most that each owner may keep, so that all together keep no more than `total`: who holds less than that loses
 * nothing, however much others hold.
 */
export function fairShare(held: readonly number[], total: number): number {
  let left = total;
  let owners = held.length;
  for (const bytes of [...held].sort((a, b) => a - b)) {
    if (bytes * owners > left) return left / owners;
    left -= bytes;
    owners -= 1;
  }
  return Number.POSITIVE_INFINITY;
}
