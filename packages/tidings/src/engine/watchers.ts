/** Who wants to be woken when something was committed. */
export interface Watchers {
  /** Adds a watcher of one owner, or of anybody when undefined. Returns the way to stop. */
  add(owner: string | undefined, wake: () => void): () => void;
  /** Wakes the watchers of these owners and those of anybody. */
  wake(owners: Iterable<string>): void;
  readonly size: number;
  clear(): void;
}

export function createWatchers(onSizeChange: () => void = () => {}): Watchers {
  const byOwner = new Map<string | undefined, Set<{ readonly wake: () => void }>>();
  let size = 0;
  const wakeAll = (owner: string | undefined) => {
    for (const { wake } of [...(byOwner.get(owner) ?? [])]) {
      try {
        wake();
      } catch {
        // A wake-up is a hint: one watcher's bug must neither fail a commit nor keep the others asleep.
      }
    }
  };
  return {
    get size() {
      return size;
    },
    add(owner, wake) {
      const watcher = { wake };
      const group = byOwner.get(owner) ?? new Set();
      byOwner.set(owner, group.add(watcher));
      size += 1;
      onSizeChange();
      return () => {
        if (!group.delete(watcher)) return;
        if (group.size === 0 && byOwner.get(owner) === group) byOwner.delete(owner);
        size -= 1;
        onSizeChange();
      };
    },
    wake(owners) {
      const woken = new Set(owners);
      if (woken.size === 0 || size === 0) return;
      for (const owner of woken) wakeAll(owner);
      wakeAll(undefined);
    },
    clear() {
      // Who waits learns that there is nothing left to wait for: the next read says so.
      for (const owner of [...byOwner.keys()]) wakeAll(owner);
      for (const group of byOwner.values()) group.clear();
      byOwner.clear();
      size = 0;
      onSizeChange();
    },
  };
}
