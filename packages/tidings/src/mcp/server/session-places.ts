/** How many 2025 sessions there may be: of everybody together, and of one owner, so that nobody takes all places. */
import { TidingsError } from "../../model/error.ts";

export interface SessionPlaces {
  /** What keeps an owner from one more session, as the error to answer with; undefined when there is a place. */
  refusal(owner: string): TidingsError | undefined;
  /** Takes a place, at once: many may begin at the same time. Returns the way to give it back, once however often it is called. */
  take(owner: string): () => void;
}

/** A place is free when a session has rested for long enough, or one of its owner's makes room: nobody knows when. */
const RETRY_AFTER_MS = 30_000;

export function createSessionPlaces(maxSessions: number, maxSessionsPerOwner: number): SessionPlaces {
  const perOwner = new Map<string, number>();
  let all = 0;

  function add(owner: string, step: 1 | -1): void {
    all += step;
    const count = (perOwner.get(owner) ?? 0) + step;
    if (count === 0) perOwner.delete(owner);
    else perOwner.set(owner, count);
  }

  return {
    refusal(owner) {
      if ((perOwner.get(owner) ?? 0) >= maxSessionsPerOwner) {
        return new TidingsError(
          "TOO_MANY_REQUESTS",
          `You have ${maxSessionsPerOwner} sessions in use, and no more are allowed.`,
          {
            hint: "End one of them with DELETE, or close its stream.",
            data: { limit: maxSessionsPerOwner, retryAfterMs: RETRY_AFTER_MS },
          },
        );
      }
      if (all < maxSessions) return undefined;
      return new TidingsError("SERVER_FULL", `All ${maxSessions} sessions of this server are in use.`, {
        hint: "Try again later.",
        data: { limit: maxSessions, retryAfterMs: RETRY_AFTER_MS },
      });
    },
    take(owner) {
      add(owner, 1);
      let isTaken = true;
      return () => {
        if (isTaken) add(owner, -1);
        isTaken = false;
      };
    },
  };
}
