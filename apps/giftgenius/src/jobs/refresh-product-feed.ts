/** Reads the catalogue again and tells everybody who shows gifts that the feed has changed. */
import type { JobDefinition } from "tidings";
import { defineJob } from "tidings";
import { z } from "zod";
import type { FeedReaders } from "../feed-readers.ts";
import { FEED_CHANGED } from "../feed-readers.ts";
import type { ProductFeed } from "../product-feed.ts";
import { PRODUCT_FEED_URI } from "../product-feed.ts";

export type RefreshProductFeed = JobDefinition<"refresh_product_feed", Record<string, never>>;

export interface RefreshParts {
  readonly feed: ProductFeed;
  readonly readers: FeedReaders;
}

export function refreshProductFeed({ feed, readers }: RefreshParts): RefreshProductFeed {
  return defineJob("refresh_product_feed", {
    input: z.strictObject({}),
    idPrefix: "feed_",
    stages: {
      read: { end: 80, label: "Reading the catalogue" },
      swap: { end: 100, label: "Publishing the new feed" },
    },
    summary: () => "Reading the product feed again",
    resultResource: () => PRODUCT_FEED_URI,
    async run(_input, { owner, progress, emit, count }) {
      const catalogue = await feed.refresh();
      count({ gifts: catalogue.gifts.length });
      await progress("read", 1);
      await emit(FEED_CHANGED);
      await readers.tell(catalogue.version, owner);
      await progress("swap", 1);
      return {
        summary: `${catalogue.gifts.length} gifts in the feed`,
        result: { version: catalogue.version, gifts: catalogue.gifts.length },
      };
    },
  }) as RefreshProductFeed;
}
