/**
 * Whose lists came from which feed, so that everybody hears when theirs is no longer the newest.
 *
 *   a list is finished ──▶ noted: its owner and the feed's version, for as long as lists are kept
 *   the feed changed   ──▶ `resource.updated` in the log of each owner with a list of another version, once per change
 *
 * The feed is shared, what is told of it says nothing about anybody: neither who asked for it nor who else is told.
 */
import { createHash, randomBytes } from "node:crypto";
import type { Tidings } from "tidings";
import { OWN } from "./own-values.ts";
import { PRODUCT_FEED_URI } from "./product-feed.ts";

/** The event that lights up "Refresh gift list". */
export const FEED_CHANGED = {
  type: "resource.updated",
  resourceId: PRODUCT_FEED_URI,
  changeType: "snapshot_ready",
} as const;

export interface FeedReaders {
  /** An owner has a list from this version of the feed. */
  note(owner: string, version: string): Promise<void>;
  /** Tells everybody whose lists came from another version, but the one who asked for it. Once per change, also when it is interrupted and called again. */
  tell(version: string, asker: string): Promise<void>;
}

/** What the last change was, and whether all have been told. */
interface FeedChange {
  readonly version: string;
  /** Makes the events of one change the same when they are told again; at random, so that nobody can tell them ahead. */
  readonly id: string;
  readonly told: boolean;
}

const LISTS = "list/";
const CHANGE = "feed";
/** Beyond it people are not told: a bound on the work of one refresh. */
const MOST_TOLD = 10_000;
const AT_ONCE = 50;
/** A list ends a little later than it is noted. */
const MARGIN_MS = 3_600_000;

/**
 * @param tidings - Asked for when it is needed.
 * @param retentionMs - How long lists are kept.
 */
export function createFeedReaders(tidings: () => Tidings, retentionMs: number): FeedReaders {
  function noteChange(version: string): Promise<FeedChange> {
    return tidings().transaction(OWN, async (values) => {
      const last = (await values.get(CHANGE)) as FeedChange | undefined;
      if (last?.version === version) return last;
      const change = { version, id: randomBytes(16).toString("base64url"), told: false };
      await values.put(CHANGE, change);
      return change;
    });
  }

  async function ownersOfOthers(version: string, asker: string): Promise<readonly string[]> {
    const notes = await tidings().transaction(OWN, (values) => values.list(LISTS, MOST_TOLD));
    const others = notes.filter(({ key }) => !key.startsWith(`${LISTS}${version}/`));
    const owners = new Set(others.map(({ value }) => (value as { readonly owner: string }).owner));
    owners.delete(asker);
    return [...owners];
  }

  return {
    note: (owner, version) =>
      tidings().transaction(OWN, (values) =>
        values.put(
          `${LISTS}${version}/${digestOf(owner)}`,
          { owner },
          { expiresInMs: retentionMs + MARGIN_MS },
        ),
      ),

    async tell(version, asker) {
      const change = await noteChange(version);
      if (change.told) return;
      const owners = await ownersOfOthers(version, asker);
      for (let from = 0; from < owners.length; from += AT_ONCE) {
        const some = owners.slice(from, from + AT_ONCE);
        await Promise.all(
          some.map((owner) => {
            const eventId = `evt_${digestOf(`${change.id} ${owner}`)}`;
            return tidings().publish(FEED_CHANGED, { owner, eventId });
          }),
        );
      }
      await tidings().transaction(OWN, async (values) => {
        const last = (await values.get(CHANGE)) as FeedChange | undefined;
        if (last?.id === change.id) await values.put(CHANGE, { ...change, told: true });
      });
    },
  };
}

function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, 22);
}
