/**
 * A shop that credits a bonus for each payment, once: `node --import tsx --conditions=@tidings/source examples/order-paid.ts [sqlite:./shop.db]`.
 *
 * The same event arrives ten times, and two different events speak of one payment. The bonus is written in the same
 * transaction as the payment's key, so it is credited once, however often the shop is told and wherever it crashes.
 */
import { pathToFileURL } from "node:url";
import { createTidings, defineEvent, type Tidings } from "tidings";
import { createDurableOnce, createEventHandler } from "tidings/client";
import { z } from "zod";

export const orderPaid = defineEvent("order.paid", {
  payload: z.object({ orderId: z.string(), paymentId: z.string(), cents: z.int().min(1) }),
});

/** Reads the shop's log from the beginning and credits what it has not credited yet; ends when it is up to date. */
export async function creditBonuses(tidings: Tidings, print: (line: string) => void): Promise<void> {
  const credit = createEventHandler(
    orderPaid,
    { key: ({ paymentId }) => paymentId, once: createDurableOnce(tidings, "shop") },
    async ({ orderId, paymentId, cents }, transaction) => {
      const balance = ((await transaction.get("bonus")) as number | undefined) ?? 0;
      const bonus = Math.floor(cents / 10);
      await transaction.put("bonus", balance + bonus);
      print(`payment ${paymentId} of order ${orderId}: bonus of ${bonus} cents`);
    },
  );
  let after: string | undefined;
  for (;;) {
    const page = await tidings.read({ owner: "shop", ...(after === undefined ? {} : { after }) });
    for (const { event } of page.events) {
      // Delivery is at least once: here ten times.
      for (let time = 1; time <= 10; time += 1) await credit(event);
    }
    if (!page.hasMore) return;
    after = page.cursor;
  }
}

/** The bonus that was credited so far, in cents. */
export async function readBonus(tidings: Tidings): Promise<number> {
  return ((await tidings.transaction("shop", (values) => values.get("bonus"))) as number | undefined) ?? 0;
}

export async function main(store: string, print: (line: string) => void = console.log): Promise<number> {
  const tidings = await createTidings({ store, jobs: [] });
  try {
    const about = { owner: "shop", source: "checkout" };
    await tidings.publish(orderPaid({ orderId: "o-1", paymentId: "p-1", cents: 5_000 }), about);
    await tidings.publish(orderPaid({ orderId: "o-1", paymentId: "p-1", cents: 5_000 }), about);
    await tidings.publish(orderPaid({ orderId: "o-2", paymentId: "p-2", cents: 2_000 }), about);
    await creditBonuses(tidings, print);
    // Reading everything again credits nothing.
    await creditBonuses(tidings, print);
    const bonus = await readBonus(tidings);
    print(`bonus in all: ${bonus} cents`);
    return bonus;
  } finally {
    await tidings.close();
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main(process.argv[2] ?? "memory:");
