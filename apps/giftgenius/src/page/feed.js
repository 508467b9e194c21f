/** The product feed behind the gifts: how often it changed since a list was begun, and reading it again by hand. */
import { part, write } from "./element.js";
import { patiently } from "./server.js";
import { foldEvent, foldSnapshot, hasEnded, newStory } from "./story.js";

const FEED = "resource:product-feed";

/**
 * Counts the changes of the feed since a cursor, also those before this page was opened.
 *
 * @returns `stop()` and `retryNow()`.
 */
export function watchFeed(server, after, { onChanges, onConnection }) {
  const seen = new Set();
  return server.follow(`/events?resourceId=${encodeURIComponent(FEED)}`, {
    after,
    onFrame({ event, data }) {
      if (event !== "resource.updated") return;
      const { eventId, resourceId } = data;
      if (resourceId !== FEED || seen.has(eventId)) return;
      seen.add(eventId);
      onChanges(seen.size);
    },
    onConnection,
  });
}

/** Lets the server read its product feed again, and tells how that goes beside the button. */
export async function reloadFeed(server) {
  part("reload-feed").disabled = true;
  tellFeed("Reading the product feed again…");
  try {
    const { jobId } = await patiently(() => server.call("refresh_product_feed", {}));
    const story = await endOf(server, jobId);
    if (story.status === "failed") throw story.error;
    tellFeed(`Product feed read again: ${story.summary ?? "done"}.`);
  } catch (error) {
    tellFeed(`The product feed could not be read: ${error.message} ${error.hint ?? ""}`);
  }
  part("reload-feed").disabled = false;
}

/** Writes the line beside the button; an empty text takes it away. */
export function tellFeed(text) {
  part("feed-note").hidden = text === "";
  write(part("feed-note"), text);
}

function endOf(server, jobId) {
  const story = newStory(jobId);
  return new Promise((resolve, reject) => {
    const stream = server.follow(`/jobs/${encodeURIComponent(jobId)}/events`, {
      onFrame({ id, event, data }) {
        if (event === "snapshot") foldSnapshot(story, data);
        else foldEvent(story, data, id);
        if (story.hasProgress) tellFeed(`Reading the product feed again, ${Math.floor(story.percentage)}%…`);
        if (!hasEnded(story)) return;
        stream.stop();
        resolve(story);
      },
      onEnd: () => resolve(story),
      onRefused: reject,
    });
  });
}
