import { describe, expect, it } from "vitest";
import { JSON_RPC_CODES, toRpcError, toTidingsError } from "../../src/mcp/error.ts";
import * as wire2025 from "../../src/mcp/wire/2025-11-25.ts";
import * as wire2026 from "../../src/mcp/wire/2026-07-28.ts";
import { RETRYABLE, TidingsError } from "../../src/model/error.ts";
import type { CatalogueType, TidingsEvent } from "../../src/model/event.ts";
import { readMessage } from "../../src/model/projection/read.ts";

const error = { code: "BAD_FILE", message: "The file is empty.", hint: "Send another.", retryable: false };
const since = "2026-11-30T10:00:00.000Z";

/** What each type of the catalogue carries beside the envelope. */
const PAYLOADS: Readonly<Record<CatalogueType, object>> = {
  "job.created": { jobType: "count", summary: "Counting" },
  "job.started": { attempt: 1 },
  "job.progress": { percentage: 12.5, stage: "First", stageKey: "first", etaSeconds: 3 },
  "job.retrying": { attempt: 1, delaySeconds: 0.5, error },
  "job.partial": { added: 3, resultResourceId: "resource:x", cursor: "abc" },
  "job.completed": { resultResourceId: "resource:x", summary: "one\ntwo\u2028three" },
  "job.failed": { error },
  "job.canceled": { canceledBy: "user", reason: "enough" },
  "resource.updated": { resourceId: "resource:x", changeType: "snapshot_ready" },
  "resource.list_changed": { resourceId: "resource:x", changeType: "added" },
  "system.log": { source: "count", level: "warning", message: "Slow" },
  "system.heartbeat": { source: "tidings", cursor: "abc" },
  "system.degraded": { source: "shop", message: "The shop is slow.", since },
  "system.restored": { source: "shop", since },
};

const events = Object.entries({ ...PAYLOADS, "order.paid": { source: "shop", paymentId: "p1" } }).map(
  ([type, payload], index) =>
    ({
      eventId: `evt_${index}`,
      type,
      timestamp: since,
      ...(type.startsWith("job.") || type === "system.log"
        ? { jobId: "count_1", seq: index + 1, correlationId: "r" }
        : {}),
      ...payload,
    }) as TidingsEvent,
);

const IDS = [0, 7, "", "listen:1"];

describe("the codecs", () => {
  it.each(events.map((event) => [event.type, event] as const))(
    "write %s so that the reader gives it back, in every form",
    (_, event) => {
      const delivery = { event, cursor: "c1" };
      const uri = event.jobId === undefined ? "resource:x" : `job://${event.jobId}`;
      const forms = [
        wire2025.toEventNotification(delivery),
        wire2025.toResourceUpdate(uri, delivery),
        wire2026.toEventNotification(delivery),
        wire2026.toResourceUpdate(uri, delivery),
        ...IDS.flatMap((id) => [
          wire2026.toEventNotification(delivery, id),
          wire2026.toResourceUpdate(uri, delivery, id),
        ]),
      ];
      for (const form of forms) {
        expect(readMessage({ jsonrpc: "2.0", ...JSON.parse(JSON.stringify(form)) })).toEqual({
          kind: "event",
          event,
          cursor: "c1",
        });
      }
    },
  );

  it.each(IDS)("tag every message of a listen with its id as it is: %j", (id) => {
    for (const event of events) {
      for (const { params } of [
        wire2026.toEventNotification({ event, cursor: "c1" }, id),
        wire2026.toResourceUpdate("job://a", { event }, id),
      ]) {
        expect((params._meta as Record<string, unknown>)["io.modelcontextprotocol/subscriptionId"]).toBe(id);
      }
    }
  });

  it("never use notifications/message on 2026-07-28, nor a change notification outside a listen", () => {
    for (const event of events) {
      expect(wire2026.toEventNotification({ event }, 1).method).not.toBe("notifications/message");
      expect(wire2026.toEventNotification({ event }).method).not.toMatch(
        /^notifications\/(message|resources\/)/,
      );
    }
  });
});

describe("the table of JSON-RPC codes", () => {
  it("has a line for every code, with the code itself in data", () => {
    expect(Object.keys(JSON_RPC_CODES).toSorted()).toEqual(Object.keys(RETRYABLE).toSorted());
    for (const code of Object.keys(RETRYABLE)) {
      const error = toRpcError(new TidingsError(code, "A sentence.", { hint: "Do this." }));
      expect(error.data).toMatchObject({ code, hint: expect.any(String) });
      if (!code.startsWith("STORE_"))
        expect(error).toMatchObject({ message: "A sentence.", data: { hint: "Do this." } });
    }
  });

  it("tells nothing of where the store lies, whatever failed in it", () => {
    const codes = Object.keys(RETRYABLE).filter((code) => code.startsWith("STORE_"));
    expect(codes).not.toEqual([]);
    for (const code of codes) {
      const thrown = new TidingsError(code, 'The store "/srv/jobs.db" failed.', { hint: "Look at /srv." });
      expect(JSON.stringify(toRpcError(thrown))).not.toContain("/srv");
      expect(toTidingsError(thrown)).toMatchObject({ code, retryable: thrown.retryable, cause: thrown });
    }
  });

  it("tells nothing of an error that is not ours", () => {
    const { message, data } = toRpcError(new Error("secret"));
    expect(JSON.stringify([message, data])).not.toContain("secret");
    expect(data.code).toBe("INTERNAL");
  });
});
