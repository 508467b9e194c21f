/**
 * Starting a job of an owner that keeps as much as it may: what it has of ended jobs makes room.
 *
 *   start ──over──▶ the owner's turn ─▶ start ──over──▶ prune ──something went──▶ start …
 *                                                         └ nothing left to go: over
 */
import type { Engine, StartOutcome, StartRequest } from "./engine.ts";

/** Starts of one owner make room one after the other: otherwise one would take what another made, and be refused for it. */
export function createStarter(start: Engine["start"], prune: Engine["prune"]): Engine["start"] {
  const turns = new Map<string, Promise<unknown>>();

  const makeRoom = async (request: StartRequest, storedBytes: number): Promise<StartOutcome> => {
    const inputBytes = Buffer.byteLength(JSON.stringify(request.input) ?? "");
    const perOwner = { owner: request.owner, bytes: Math.max(0, storedBytes - inputBytes) };
    // Twice, because another process may have made the room, or taken it, between the two.
    for (let vain = 0; ; ) {
      const outcome = await start(request);
      if (outcome.outcome !== "over" || vain > 1) return outcome;
      const { jobs, events } = await prune({ perOwner });
      vain = jobs + events > 0 ? 0 : vain + 1;
    }
  };

  return async (request) => {
    const outcome = await start(request);
    const storedBytes = request.queue?.storedBytes;
    if (outcome.outcome !== "over" || storedBytes === undefined) return outcome;
    const { owner } = request;
    const turn = (turns.get(owner) ?? Promise.resolve()).then(() => makeRoom(request, storedBytes));
    const over = turn
      .catch(() => {})
      .then(() => {
        if (turns.get(owner) === over) turns.delete(owner);
      });
    turns.set(owner, over);
    return turn;
  };
}
