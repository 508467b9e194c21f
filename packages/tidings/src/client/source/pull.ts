/** Takes items from a source one at a time, without ever waiting inside: the bell says that something arrived. */
import type { TidingsError } from "../../model/error.ts";
import { toFailure } from "./failure.ts";
import type { SourceItem } from "./source.ts";
import type { Bell } from "./wait.ts";

export type Arrival =
  | { readonly kind: "item"; readonly item: SourceItem }
  | { readonly kind: "closed" }
  | { readonly kind: "failed"; readonly failure: TidingsError };

export interface Pull {
  /** What arrived, if anything; otherwise the source is asked for the next item, once. */
  take(): Arrival | undefined;
  /** Lets go of the source, also of one that never answers. */
  stop(): void;
}

export function createPull(source: AsyncIterable<SourceItem>, bell: Bell): Pull {
  const items = source[Symbol.asyncIterator]();
  let arrived: Arrival | undefined;
  let asking = false;
  const arrive = (arrival: Arrival): void => {
    arrived = arrival;
    bell.ring();
  };
  return {
    take() {
      const arrival = arrived;
      if (arrival !== undefined) {
        arrived = undefined;
        asking = false;
        return arrival;
      }
      if (!asking) {
        asking = true;
        items.next().then(
          ({ done, value }) => arrive(done === true ? { kind: "closed" } : { kind: "item", item: value }),
          (error: unknown) =>
            arrive({ kind: "failed", failure: toFailure(error, "Reading the job's story") }),
        );
      }
      return undefined;
    },
    stop() {
      void items.return?.().then(undefined, () => undefined);
    },
  };
}
