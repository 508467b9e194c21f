/** What people see in a terminal: tables and a bar, with nothing cut that they would copy. */
import { defineJob, PermanentError, type Tidings } from "tidings";
import { beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { readArguments } from "../../src/cli/command.ts";
import { inspect } from "../../src/cli/inspect.ts";
import type { Io } from "../../src/cli/io.ts";
import { tail } from "../../src/cli/tail.ts";
import { makeFolder } from "../engine/folder.ts";
import { open, storyOf } from "../runtime/story.ts";

const SENTENCE = `The shop ${"refused the order and said why at length, ".repeat(20)}and closed.`;
const work = defineJob("work", {
  input: z.object({}),
  async run(_, { progress }) {
    await progress("work", 0.5);
    return { summary: `done, ${"and more was done, ".repeat(20)}\u001b[31mnot red` };
  },
});
const fails = defineJob("fails", {
  input: z.object({}),
  run() {
    throw new PermanentError("SHOP_CLOSED", SENTENCE);
  },
});

let tidings: Tidings;
let store: string;
beforeEach(async () => {
  store = `sqlite:${makeFolder()}/jobs.db`;
  tidings = await open({ store, jobs: [work, fails] });
});

async function ended(job: typeof work | typeof fails): Promise<string> {
  const { jobId } = await tidings.start(job, {});
  await storyOf(tidings, jobId);
  return jobId;
}

function createTerminal(columns: number, env: Io["env"] = {}) {
  let written = "";
  const io: Io = {
    write(text) {
      written += text;
    },
    writeError: () => {},
    isTerminal: true,
    columns,
    env,
    signal: new AbortController().signal,
  };
  return { io, text: () => written, lines: () => written.split("\n") };
}

const CONTROL = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/;

test("a list shows each id whole, and shortens what was said last to the width of the line", async () => {
  const ids = [await ended(work), await ended(fails)];
  for (const columns of [20, 80, 120]) {
    const { io, lines } = createTerminal(columns);
    expect(await inspect.run(readArguments("inspect", inspect, ["--store", store]), io)).toBe(0);
    const [head, failed, completed] = lines();
    expect(head).toMatch(/^JOB +STATUS +DONE +TRIES +AGE$/);
    expect(completed).toMatch(new RegExp(`^${ids[0]} +completed +100 % +1 .*…$`));
    expect(failed).toMatch(new RegExp(`^${ids[1]} +failed +0 % +1 .*SHOP_CLOSED.*…$`));
    if (columns === 120) expect(Math.max(...lines().map((line) => line.length))).toBe(120);
  }
});

test("the details of a job cut nothing: an error is read to its end", async () => {
  const jobId = await ended(fails);
  const { io, text } = createTerminal(80, { NO_COLOR: "1" });
  await inspect.run(readArguments("inspect", inspect, [jobId, "--events", "--store", store]), io);
  expect(text()).toContain(`${jobId}  failed`);
  expect(text().split(SENTENCE).length - 1).toBe(2);
  expect(text()).not.toMatch(CONTROL);
});

test("tail draws a bar below the events, and takes it away when the job has ended", async () => {
  const jobId = await ended(work);
  const { io, text, lines } = createTerminal(80);
  expect(await tail.run(readArguments("tail", tail, [jobId, "--store", store]), io)).toBe(0);
  expect(text()).toContain("█");
  expect(text()).toContain(" 50 % Work");
  expect(lines().at(-2)).toContain("job.completed");
  expect(text()).toContain("\\u{1b}[31mnot red");
});
