import { afterEach, describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { browserClock } from "../../src/client/browser-clock.ts";
import type { ClientJob, Connection, FollowOptions, Gap, SseOptions } from "../../src/client/index.ts";
import { createInbox, defineEvent, follow } from "../../src/client/index.ts";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import { defineJob } from "../../src/runtime/define-job.ts";
import { fold, storyOf, wholeStory } from "./stories.ts";
import type { Asked, StoryServer } from "./story-server.ts";
import { answer, createStoryServer, cursorOf, framesOf, refuse } from "./story-server.ts";

const story = wholeStory("job_1");
const servers: StoryServer[] = [];

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

async function serve(script?: (asked: Asked) => unknown, told: readonly TidingsEvent[] = story) {
  const server = await createStoryServer(told, script);
  servers.push(server);
  return server;
}

/** No pause between attempts. */
const random = { id: () => "x", fraction: () => 0 };

async function read(target: SseOptions & Partial<FollowOptions>) {
  const connections: string[] = [];
  const followed = follow({
    random,
    jobId: "job_1",
    onConnection: ({ state }: Connection) => connections.push(state),
    ...target,
  });
  const events: TidingsEvent[] = [];
  for await (const event of followed) events.push(event);
  return { events, followed, connections };
}

function stream({ res }: Asked, text: string | Uint8Array, end: "end" | "destroy" | "keep"): true {
  res.writeHead(200, { "content-type": "text/event-stream" });
  if (end === "end") res.end(text);
  else res.write(text, () => void (end === "destroy" && res.destroy()));
  return true;
}

describe("following a job by server-sent events", () => {
  it("gives the whole story in order and returns after its ending, with the final job at hand", async () => {
    const { url, asked } = await serve();
    const { events, followed, connections } = await read({ url });
    expect(events).toEqual(story);
    expect(followed.job).toEqual(fold(story));
    expect(followed.cursor).toBe(cursorOf(7));
    expect(connections).toEqual(["live", "ended"]);
    expect(asked.map(({ path }) => path)).toEqual(["/jobs/job_1/events"]);
  });

  it("loses and doubles nothing when the stream is cut at any byte", async () => {
    const short = storyOf("job_1", [{ type: "start" }, { type: "cancel", canceledBy: "a person" }]);
    const bytes = Buffer.from(framesOf(short, 1, 2, 3));
    let cut: number | undefined = 0;
    const { url } = await serve((request) => {
      if (cut === undefined) return false;
      // A cut socket and an end in good order take turns.
      stream(request, bytes.subarray(0, cut), cut % 2 === 0 ? "end" : "destroy");
      cut = undefined;
      return true;
    }, short);
    for (let next = 0; next < bytes.length; next += 1) {
      cut = next;
      const { events, followed } = await read({ url });
      expect(events).toEqual(short);
      expect(followed.job?.status).toBe("canceled");
    }
  });

  it("goes on after the last cursor, by Last-Event-ID, across restarts that answer 503", async () => {
    const { url, asked } = await serve((request) => {
      if (request.number === 0) return stream(request, framesOf(story, 1, 2, 3), "destroy");
      if (request.number === 1) return answer(request, 503, "text/plain", "restarting");
      return request.number === 2 && stream(request, "", "destroy");
    });
    const { events, connections } = await read({ url, after: cursorOf(0) });
    expect(events).toEqual(story);
    const resumed = cursorOf(3);
    expect(asked.map(({ headers }) => headers["last-event-id"])).toEqual([
      undefined,
      resumed,
      resumed,
      resumed,
    ]);
    expect(asked[0]?.path).toBe(`/jobs/job_1/events?after=${encodeURIComponent(cursorOf(0))}`);
    expect(connections.filter((state) => state === "reconnecting")).toHaveLength(3);
  });

  it("gives repeats once", async () => {
    const { url } = await serve((request) =>
      stream(request, framesOf(story, 1, 2, 2, 1, 3, 4, 3, 5, 6, 7), "end"),
    );
    expect((await read({ url })).events).toEqual(story);
  });

  it("asks again for an event that was passed over", async () => {
    const gaps: Gap[] = [];
    const { url, asked } = await serve(
      (request) => request.number === 0 && stream(request, framesOf(story, 1, 2, 5), "keep"),
    );
    const { events } = await read({ url, holdMs: 5, onGap: (gap) => gaps.push(gap) });
    expect(events).toEqual(story);
    expect(asked[1]?.headers["last-event-id"]).toBe(cursorOf(2));
    expect(gaps).toEqual([]);
  });

  it.each(["end", "keep"] as const)(
    "says so, and goes on, when an event is lost for good (%s)",
    async (end) => {
      const gaps: Gap[] = [];
      const { url } = await serve(({ position, ...request }) =>
        stream(
          { position, ...request },
          framesOf(story, ...[1, 2, 5, 6, 7].filter((n) => n > position)),
          end,
        ),
      );
      const { events, followed } = await read({
        url,
        holdMs: end === "keep" ? 5 : 60_000,
        onGap: (gap) => gaps.push(gap),
      });
      expect(events.map(({ seq }) => seq)).toEqual([1, 2, 5, 6, 7]);
      expect(gaps).toEqual([{ jobId: "job_1", after: cursorOf(2), from: 3, to: 4 }]);
      expect(followed.job).toMatchObject({ status: "completed", percentage: 100 });
    },
  );

  it("tells of a snapshot when events are no longer kept, and goes on behind it", async () => {
    const { failures: _, updatedAt: __, ...state } = fold(story.slice(0, 4));
    const snapshot = JSON.stringify({ ...state, counts: {}, cursor: cursorOf(4) });
    const jobs: ClientJob[] = [];
    const { url } = await serve((request) => {
      const frame = `event: snapshot\nid: ${cursorOf(4)}\ndata: ${snapshot}\n\n`;
      return stream(request, frame + framesOf(story, 3, 4, 5, 6, 7), "end");
    });
    const { events, followed } = await read({ url, onSnapshot: (job) => jobs.push(job) });
    expect(jobs).toEqual([expect.objectContaining({ percentage: 40, seq: 4 })]);
    expect(events).toEqual(story.slice(4));
    expect(followed.job).toMatchObject({ status: "completed", jobType: "bulk_gift_analysis", seq: 7 });
  });

  it("ends at once behind the ending (204), and from a snapshot that has ended", async () => {
    const { url, asked } = await serve();
    expect((await read({ url, after: cursorOf(7) })).events).toEqual([]);
    expect(asked).toHaveLength(1);
    expect((await read({ url, snapshot: fold(story) })).followed.job?.status).toBe("completed");
    expect(asked).toHaveLength(1);
  });

  it("begins in the middle when a cursor says so", async () => {
    const { url } = await serve();
    const { events, followed } = await read({ url, after: cursorOf(4) });
    expect(events).toEqual(story.slice(4));
    expect(followed.job).toMatchObject({ status: "completed", percentage: 100 });
  });

  it.each([
    ["JOB_NOT_FOUND", 404],
    ["BAD_CURSOR", 400],
  ])("gives up on %s", async (code, status) => {
    const { url, asked } = await serve((request) => refuse(request, status, code));
    const connections: string[] = [];
    const failing = follow({ url, jobId: "job_1", onConnection: ({ state }) => connections.push(state) });
    await expect(failing[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code, hint: "Do better." });
    expect(asked).toHaveLength(1);
    expect(connections).toEqual(["failed"]);
  });

  it("does not take a proxy's 404, a login page or nonsense for the server's word", async () => {
    const { url } = await serve((request) => {
      if (request.number === 0) return answer(request, 404, "text/html", "<h1>Not here</h1>");
      if (request.number === 1) return answer(request, 200, "text/html", "<h1>Log in</h1>");
      return request.number === 2 && answer(request, 401, "application/json", "{}");
    });
    expect((await read({ url })).events).toEqual(story);
  });

  it("counts invalid events and asks for them again", async () => {
    const inbox = createInbox({ holdMs: Number.POSITIVE_INFINITY });
    const { url } = await serve((request) => {
      const bad = `id: ${cursorOf(3)}\nevent: job.progress\ndata: {"percentage":1e999}\n\ndata: {{{\n\n`;
      return request.number === 0 && stream(request, framesOf(story, 1, 2) + bad, "end");
    });
    const { events } = await read({ url, inbox });
    expect(events).toEqual(story);
    expect(inbox.counters.invalid).toBe(2);
  });

  it("notices a connection on which nothing comes any more, and takes comments for a sign of life", async () => {
    const clock = createManualClock();
    const connections: string[] = [];
    let silent: Asked | undefined;
    const { url, asked } = await serve((request) => {
      if (request.number > 0) return false;
      silent = request;
      return stream(request, framesOf(story, 1), "keep");
    });
    let chunks = 0;
    const counting: typeof fetch = async (...request) => {
      const response = await fetch(...request);
      const counted = new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          chunks += 1;
          controller.enqueue(chunk);
        },
      });
      const { status, headers } = response;
      return new Response(response.body?.pipeThrough(counted) ?? null, { status, headers });
    };
    const reading = read({
      url,
      clock,
      fetch: counting,
      heartbeatMs: 15_000,
      onConnection: ({ state }) => connections.push(state),
    });
    await until(() => chunks === 1);
    for (let beat = 2; beat < 7; beat += 1) {
      clock.advance(30_000);
      silent?.res.write(": beat\n\n");
      await until(() => chunks === beat);
      await settled();
    }
    expect(connections).toEqual(["live"]);
    clock.advance(45_000);
    await until(() => connections.includes("reconnecting"));
    clock.advance(0);
    expect((await reading).events).toEqual(story);
    expect(asked[1]?.headers["last-event-id"]).toBe(cursorOf(1));
  });

  it("gives up when nothing was heard for as long as it was told to try", async () => {
    const server = await serve();
    await server.close();
    const attempt = read({ url: server.url, giveUpAfterMs: 30, random: { ...random, fraction: () => 0.02 } });
    await expect(attempt).rejects.toMatchObject({ code: "UNREACHABLE", retryable: true });
  });

  it("waits as long as the server asks", async () => {
    const pauses: number[] = [];
    const { url } = await serve((request) => {
      if (request.number === 0) return answer(request, 429, "text/plain", "", { "retry-after": "3" });
      return request.number === 1 && answer(request, 200, "text/event-stream", "retry: 1500\n\n");
    });
    const clock = {
      ...browserClock,
      after: (ms: number, call: () => void) => browserClock.after(ms > 10_000 ? ms : 0, call),
    };
    await read({ url, clock, onConnection: ({ delayMs }) => delayMs !== undefined && pauses.push(delayMs) });
    expect(pauses).toEqual([3000, 1500]);
  });

  it("lets go of the connection when the reader leaves the loop or aborts, without an error", async () => {
    let closed = 0;
    const { url } = await serve((request) => {
      request.res.on("close", () => {
        closed += 1;
      });
      return stream(request, framesOf(story, 1), "keep");
    });
    for await (const event of follow({ url, jobId: "job_1" })) {
      expect(event).toEqual(story[0]);
      break;
    }
    const controller = new AbortController();
    for await (const event of follow({ url, jobId: "job_1", signal: controller.signal })) {
      expect(event).toEqual(story[0]);
      controller.abort();
    }
    await until(() => closed === 2);
  });

  it("sends headers that may be renewed, and escapes the job's id", async () => {
    const { url, asked } = await serve((request) => refuse(request, 404, "JOB_NOT_FOUND"));
    const headers = async () => ({ authorization: "Bearer one" });
    await expect(read({ url: `${url}//`, jobId: "a/../b?c", headers })).rejects.toThrow();
    expect(asked[0]).toMatchObject({ path: "/jobs/a%2F..%2Fb%3Fc/events" });
    expect(asked[0]?.headers.authorization).toBe("Bearer one");
  });

  it("feeds a shared inbox, and does not tell again what that knows", async () => {
    const { url, asked } = await serve();
    const inbox = createInbox();
    for (const event of story.slice(0, 3)) inbox.accept(event, cursorOf(event.seq ?? 0));
    expect((await read({ url, inbox })).events).toEqual(story.slice(3));
    expect(asked[0]?.position).toBe(3);
  });
});

describe("a followed job's types", () => {
  const analyse = defineJob("bulk_gift_analysis", { input: z.object({}), run: () => undefined });
  const paid = defineEvent("order.paid", { payload: z.object({ paymentId: z.string() }) });

  it("come from its definition and from the events that are listed", async () => {
    const { url } = await serve();
    for await (const event of follow(analyse, { url, jobId: "job_1", events: [paid] })) {
      if (event.type === "job.created") expectTypeOf(event.jobType).toEqualTypeOf<"bulk_gift_analysis">();
      if (event.type === "job.progress") expectTypeOf(event.percentage).toEqualTypeOf<number>();
      if (event.type === "order.paid") expectTypeOf(event.paymentId).toEqualTypeOf<string>();
    }
  });

  it("are checked: a job of another type is refused", async () => {
    const { url } = await serve(undefined, storyOf("job_1", []));
    const other = defineJob("other", { input: z.object({}), run: () => undefined });
    const events = follow(other, { url, jobId: "job_1" });
    await expect(events[Symbol.asyncIterator]().next()).rejects.toThrow(
      'The job "job_1" is a "bulk_gift_analysis", not a "other".',
    );
  });
});

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

/** What has arrived has been dealt with. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
