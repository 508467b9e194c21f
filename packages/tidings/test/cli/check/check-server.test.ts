import { describe, expect, it, onTestFinished } from "vitest";
import { createWorld } from "../../mcp/http-world.ts";
import { PATIENTLY } from "../../mcp/support.ts";
import { check } from "./io.ts";
import { busyHeartbeat } from "./servers/busy-heartbeat.ts";
import { serveFallingInOneCall } from "./servers/falling-in-one-call.ts";
import { fallingProgress } from "./servers/falling-progress.ts";
import { illegalSequence } from "./servers/illegal-sequence.ts";
import { logLines } from "./servers/log-lines.ts";
import { missingIds } from "./servers/missing-ids.ts";
import { newIdsForOldEvents } from "./servers/new-ids-for-old-events.ts";
import { progressAfterAnswer } from "./servers/progress-after-answer.ts";
import { serve } from "./servers/serve.ts";
import { twoJobsForOneKey } from "./servers/two-jobs-for-one-key.ts";

const QUICKLY = ["--settle", "0.3", "--timeout", "10"];
/** For servers that never tell an ending. */
const IMPATIENTLY = ["--settle", "0.3", "--timeout", "2"];

describe("tidings check URL", () => {
  it.each([
    { name: "events without ids", fixture: missingIds, mistake: "MISSING_IDS", rule: "missing-field" },
    {
      name: "a bar that jumps back",
      fixture: fallingProgress,
      mistake: "FALLING_PROGRESS",
      rule: "percentage-falls",
    },
    { name: "two endings", fixture: illegalSequence, mistake: "ILLEGAL_SEQUENCE", rule: "two-endings" },
    {
      name: "old events under new ids",
      fixture: newIdsForOldEvents(),
      mistake: "UNRECOGNISABLE_REPEAT",
      rule: "new-id-for-old-event",
    },
  ])("finds $name, and nothing else", async ({ fixture, mistake, rule }) => {
    const run = await check([await serve(fixture), "--tool", "start_analysis", ...QUICKLY]);
    expect(run).toMatchObject({ exit: 1, mistakes: [mistake], err: "" });
    expect(run.rules).toContain(rule);
  });

  it("finds a key that starts two jobs", async () => {
    const run = await check([await serve(twoJobsForOneKey), "--tool", "start_payment", ...QUICKLY]);
    expect(run).toMatchObject({
      exit: 1,
      mistakes: ["UNRECOGNISABLE_REPEAT"],
      rules: ["two-jobs-for-one-key"],
    });
  });

  it.each([
    {
      name: "log lines in place of events",
      fixture: logLines,
      mistake: "MIXED_EVENTS",
      rule: "log-as-event",
    },
    {
      name: "a heartbeat that ends a job",
      fixture: busyHeartbeat,
      mistake: "MIXED_EVENTS",
      rule: "system-moves-job",
    },
    {
      name: "progress after the answer",
      fixture: progressAfterAnswer,
      mistake: "PROGRESS_AFTER_ANSWER",
      rule: "progress-after-answer",
    },
  ])("finds $name, and nothing else", async ({ fixture, mistake, rule }) => {
    const run = await check([await serve(fixture), "--tool", "start_analysis", ...IMPATIENTLY]);
    expect(run).toMatchObject({ exit: 1, mistakes: [mistake], rules: [rule], err: "" });
  });

  it("finds a bar that jumps back on the stream of a call of 2026-07-28", async () => {
    const url = await serveFallingInOneCall();
    const run = await check([url, "--tool", "run_analysis", "--era", "2026-07-28", ...IMPATIENTLY]);
    expect(run).toMatchObject({ exit: 1, mistakes: ["FALLING_PROGRESS"] });
  });

  it("finds nothing wrong with a server that keeps its events in a log, in both generations of MCP", async () => {
    const world = await createWorld();
    onTestFinished(() => world.close());
    const args = ["--args", '{"steps":5}', "--era", "both", ...QUICKLY];
    const run = await check([`${world.url}/mcp`, "--tool", "start_quick", ...args]);
    const verdicts = run.lines.filter(({ kind }) => kind === "verdict");
    expect(run).toMatchObject({ exit: 0, rules: [], err: "" });
    expect(verdicts).toHaveLength(2);
    for (const verdict of verdicts)
      expect(verdict).toMatchObject({ mistakes: [], jobs: 1, reconnects: 2, exit: 0 });
    const [, modern] = verdicts;
    const unjudged = run.lines.slice(run.lines.indexOf(verdicts[0]), run.lines.indexOf(modern));
    expect(unjudged.filter(({ kind }) => kind === "unjudged")).toEqual([]);
    expect(world.errors).toEqual([]);
  });

  it("follows a failing job and a job of another owner's token alike", async () => {
    const world = await createWorld();
    onTestFinished(() => world.close());
    const run = await check([`${world.url}/mcp`, "--tool", "start_failing", "--token", "ada", ...QUICKLY]);
    expect(run).toMatchObject({ exit: 0, mistakes: [] });
    expect((await world.tidings.list("ada", { limit: 10 })).jobs).toHaveLength(1);
  });

  it("starts no second job when it repeats the call with its key", async () => {
    const world = await createWorld();
    onTestFinished(() => world.close());
    await check([`${world.url}/mcp`, "--tool", "start_quick", ...QUICKLY]);
    expect((await world.tidings.list("local", { limit: 10 })).jobs).toHaveLength(1);
  });

  it("without a tool, lists the tools and says which one probably starts a job", async () => {
    const world = await createWorld();
    onTestFinished(() => world.close());
    const run = await check([`${world.url}/mcp`], { isTerminal: true });
    expect(run).toMatchObject({ exit: 2, out: "" });
    expect(run.err).toContain("Name one with --tool");
    expect(run.err).toMatch(/Probably: start_quick, start_gated, start_failing\./);
  });

  it("says what is wrong when the tool refuses its arguments", async () => {
    const world = await createWorld();
    onTestFinished(() => world.close());
    const run = await check([`${world.url}/mcp`, "--tool", "start_quick", "--args", '{"steps":0}']);
    expect(run.exit).toBe(2);
    expect(JSON.parse(run.err).message).toContain("steps");
  });

  it("says that nothing could be examined when nobody answers, and repeats no secret", async () => {
    const run = await check(["http://127.0.0.1:1/mcp", "--tool", "x", "--token", "s3cret"], {
      isTerminal: true,
    });
    expect(run.exit).toBe(3);
    expect(run.err).toContain("No MCP server answered at http://127.0.0.1:1/mcp");
    expect(run.err).not.toContain("s3cret");
  });

  it("says which generation of MCP a server does not speak, and examines the other", async () => {
    const url = await serve(fallingProgress);
    const run = await check([url, "--tool", "start_analysis", "--era", "both", ...QUICKLY], {
      isTerminal: true,
    });
    expect(run).toMatchObject({ exit: 1 });
    expect(run.err).toMatch(/^MCP 2026-07-28: No MCP server answered at .*\n$/);
    expect(run.out).toContain("MCP 2025-11-25");
  });

  it("ends at once when it is interrupted", async () => {
    const world = await createWorld();
    onTestFinished(() => world.close());
    const stop = new AbortController();
    const running = check([`${world.url}/mcp`, "--tool", "start_gated", "--args", '{"gate":"never"}'], {
      signal: stop.signal,
    });
    await expect
      .poll(() => world.seen.some(({ rpc }) => rpc === "subscriptions/listen"), PATIENTLY)
      .toBe(true);
    stop.abort();
    expect(await running).toMatchObject({ exit: 130, out: "", err: "" });
  });
});
