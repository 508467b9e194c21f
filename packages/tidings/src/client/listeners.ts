/** Listeners that cannot hurt each other. */
export type Listener<Arguments extends unknown[]> = (...details: Arguments) => void;

export interface Listeners<Arguments extends unknown[]> {
  /** Returns the way to stop. The same function may be added twice. */
  add(listener: Listener<Arguments>): () => void;
  tell(...details: Arguments): void;
}

/** @param onError - Gets what a listener throws; the other listeners are still told. */
export function createListeners<Arguments extends unknown[]>(
  onError: (error: unknown) => void,
): Listeners<Arguments> {
  const entries = new Set<{ readonly listener: Listener<Arguments> }>();
  return {
    add(listener) {
      const entry = { listener };
      entries.add(entry);
      return () => {
        entries.delete(entry);
      };
    },
    tell(...details) {
      for (const { listener } of [...entries]) {
        try {
          listener(...details);
        } catch (error) {
          onError(error);
        }
      }
    },
  };
}
