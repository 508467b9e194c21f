import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { createWorld } from "../../mcp/http-world.ts";
import { check } from "./io.ts";

const recording = (name: string): string => fileURLToPath(new URL(`recordings/${name}`, import.meta.url));

async function inFile(text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "tidings-check-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "recording.jsonl");
  await writeFile(file, text);
  return file;
}

describe("tidings check --stream", () => {
  it.each([
    {
      file: "missing-ids.jsonl",
      mistake: "MISSING_IDS",
      rules: ["missing-field", "two-spellings"],
      first: "line 1",
    },
    {
      file: "falling-progress.jsonl",
      mistake: "FALLING_PROGRESS",
      rules: ["percentage-falls"],
      first: "line 3",
    },
    {
      file: "falling-progress.sse",
      mistake: "FALLING_PROGRESS",
      rules: ["percentage-falls"],
      first: "event 3",
    },
    {
      file: "illegal-sequence.jsonl",
      mistake: "ILLEGAL_SEQUENCE",
      rules: ["after-the-end", "two-endings"],
      first: "line 3",
    },
    {
      file: "unrecognisable-repeat.jsonl",
      mistake: "UNRECOGNISABLE_REPEAT",
      rules: ["new-id-for-old-event"],
      first: "line 5",
    },
    {
      file: "two-jobs-for-one-key.jsonl",
      mistake: "UNRECOGNISABLE_REPEAT",
      rules: ["two-jobs-for-one-key"],
      first: "line 4",
    },
    {
      file: "mixed-events.jsonl",
      mistake: "MIXED_EVENTS",
      rules: ["log-as-event", "system-moves-job", "meaning-in-text"],
      first: "line 2",
    },
    {
      file: "progress-after-answer.jsonl",
      mistake: "PROGRESS_AFTER_ANSWER",
      rules: ["progress-after-answer"],
      first: "line 4",
    },
  ])("finds in $file just $mistake, and says where", async ({ file, mistake, rules, first }) => {
    const run = await check(["--stream", recording(file)]);
    expect(run).toMatchObject({ exit: 1, mistakes: [mistake], rules, err: "" });
    expect(run.lines.find(({ kind }) => kind === "finding")).toMatchObject({ place: first, mistake });
  });

  it("says in a terminal what is wrong, where, why it hurts and what to do", async () => {
    const file = recording("falling-progress.jsonl");
    const { out } = await check(["--stream", file], { isTerminal: true, env: { NO_COLOR: "1" } });
    expect(out).toContain("✗ Falling progress (FALLING_PROGRESS)");
    expect(out).toContain('line 3: The progress of the job "job_7" fell from 70 to 40 (line 2).');
    expect(out).toContain('"percentage": 40');
    expect(out).toContain("Why it hurts: People see a bar that jumps back");
    expect(out).toContain("What to do: Report the highest value reached");
    expect(out).toContain("✓ Illegal sequence: none");
    expect(out).toContain("? Progress after the answer: could not be judged");
    expect(out).toContain("1 of 6 mistakes found in 4 messages, 4 events of 1 job, 0 reconnects.");
    expect(out).not.toContain("\u001b");
  });

  it("says what could not be judged, and never passes a record in silence that holds no event", async () => {
    const file = await inFile('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\nhello\n');
    const run = await check(["--stream", file]);
    expect(run.exit).toBe(3);
    const unjudged = run.lines.filter(({ kind, isPart }) => kind === "unjudged" && !isPart);
    expect(new Set(unjudged.map(({ mistake }) => mistake)).size).toBe(6);
    expect(run.lines[0].remarks).toEqual(["1 lines are no JSON messages and were left out."]);
  });

  it("prints nothing of a message that acts on a terminal", async () => {
    const evil = "\u001b[2J\u202e\u0000\u009b31m\u2028";
    const message = {
      jsonrpc: "2.0",
      method: "notifications/job/progress",
      params: { jobId: evil, percentage: 1, type: evil },
    };
    const file = await inFile(`${JSON.stringify(message)}\n`);
    const [person, program] = [
      await check(["--stream", file], { isTerminal: true, env: { NO_COLOR: "1" } }),
      await check(["--stream", file]),
    ];
    for (const { out, exit } of [person, program]) {
      expect(exit).toBe(1);
      expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2028\u2029]/);
    }
  });

  it.each([
    { name: "numbers and nulls", text: '1\nnull\n[]\n[1,[2]]\n"x"\n' },
    {
      name: "prototype games",
      text: '{"jsonrpc":"2.0","method":"notifications/job/x","params":{"__proto__":{"jobId":1},"constructor":null}}\n',
    },
    {
      name: "nesting without end",
      text: `${'{"jsonrpc":"2.0","method":"notifications/job/progress","params":{"payload":'.padEnd(80, " ")}${"[".repeat(100_000)}${"]".repeat(100_000)}}}\n`,
    },
    {
      name: "a text without words",
      text: `{"jsonrpc":"2.0","method":"${"-/".repeat(50_000)}","params":{"jobId":"${"9 ".repeat(50_000)}","message":"${"1".repeat(100_000)} %"}}\n`,
    },
    {
      name: "fields of wrong types",
      text: '{"jsonrpc":"2.0","method":"notifications/job/progress","params":{"eventId":{},"jobId":[],"timestamp":-1,"percentage":"50","seq":"x","type":7}}\n',
    },
  ])("survives $name", async ({ text }) => {
    const { exit, err } = await check(["--stream", await inFile(text)]);
    expect([0, 1, 3]).toContain(exit);
    expect(err).toBe("");
  });

  it("judges what --record kept exactly as it judged the server", async () => {
    const world = await createWorld();
    onTestFinished(() => world.close());
    const file = await inFile("");
    const live = await check([
      `${world.url}/mcp`,
      "--tool",
      "start_quick",
      "--settle",
      "0.2",
      "--record",
      file,
    ]);
    const again = await check(["--stream", file]);
    const verdictOf = ({ lines }: typeof live) => lines.find(({ kind }) => kind === "verdict");
    expect(verdictOf(again)).toEqual(verdictOf(live));
    expect(await readFile(file, "utf8")).toContain("tools/call");
  });
});

describe("the command line of tidings check", () => {
  it.each([
    { argv: [], says: "No address was given." },
    { argv: ["ftp://example.com"], says: '"ftp://example.com" is no address of a server.' },
    { argv: ["http://a", "http://b"], says: '"http://b" was not expected.' },
    { argv: ["http://a", "--tol", "x"], says: "--tol" },
    { argv: ["http://a", "--era", "1999"], says: '--era "1999" is not known.' },
    { argv: ["http://a", "--timeout", "soon"], says: '--timeout "soon" is no length of time.' },
    { argv: ["http://a", "--args", "{"], says: "--args is no JSON." },
    { argv: ["http://a", "--args", "[]"], says: "--args is no JSON object." },
    { argv: ["http://a", "--header", "nothing"], says: "A header or the token cannot be sent as it is." },
    { argv: ["--stream", "/no/such/file"], says: "The file /no/such/file could not be read: ENOENT." },
    { argv: ["http://a", "--stream", "x"], says: "A recorded stream and an address were given." },
  ])("refuses $argv in a sentence", async ({ argv, says }) => {
    const run = await check(argv, { isTerminal: true });
    expect(run).toMatchObject({ exit: 2, out: "" });
    expect(run.err).toContain(says);
    expect(run.err.trim().split("\n")).toHaveLength(2);
  });

  it("explains itself", async () => {
    const { exit, out } = await check(["--help"]);
    expect(exit).toBe(0);
    expect(out).toContain("Usage: tidings check URL");
  });
});
