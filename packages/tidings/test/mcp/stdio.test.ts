import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Client as Client2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as StdioClientTransport2 } from "@modelcontextprotocol/client/stdio";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioClientTransport1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Notification } from "./support.ts";
import { call, eventsIn, MODERN, methodsIn, PATIENTLY, tap } from "./support.ts";

const SERVER = {
  command: process.execPath,
  args: [
    "--import",
    "tsx",
    "--conditions=@tidings/source",
    fileURLToPath(new URL("./stdio-server.ts", import.meta.url)),
  ],
  stderr: "ignore" as const,
};

const isEnding = ({ event }: { event: { type: string } }) => event.type === "job.completed";

/** Checks that events came by themselves: no listen, no reading tool, no resource. */
function expectOnlyPushes(sent: readonly JSONRPCMessage[]): void {
  const asked = sent.flatMap((message) => {
    if (!("method" in message && "id" in message)) return [];
    return [message.method === "tools/call" ? `${message.params?.name}` : message.method];
  });
  for (const path of [
    "get_job",
    "get_job_events",
    "list_my_jobs",
    "resources/read",
    "resources/subscribe",
    "subscriptions/listen",
  ]) {
    expect(asked).not.toContain(path);
  }
}

describe("a story over stdio equals the log", () => {
  it.each([
    ["2025-11-25", {}],
    ["2026-07-28", MODERN],
  ])("with the official client, on %s", async (_, options) => {
    const { transport, log } = tap(new StdioClientTransport2(SERVER) as Transport);
    const errors: Error[] = [];
    const notifications: Notification[] = [];
    const client = new Client2({ name: "test", version: "1.0.0" }, options);
    client.onerror = (error) => errors.push(error);
    client.fallbackNotificationHandler = async (notification) => {
      notifications.push(notification as Notification);
    };
    await client.connect(transport);
    onTestFinished(() => client.close());
    const { jobId } = (await call(client, "start_noisy", { noise: true, correlationId: "run-1" })).content;
    await expect.poll(() => eventsIn(notifications).some(isEnding), PATIENTLY).toBe(true);
    expectOnlyPushes(log.sent);
    expect(methodsIn(log.received)).not.toContain("notifications/forged");
    expect(errors).toEqual([]);
    const { events } = (await call(client, "get_job_events", { jobId })).content;
    expect(
      eventsIn(notifications).map(({ event, cursor }) => ({
        ...event,
        _meta: { "dev.tidings/cursor": cursor },
      })),
    ).toEqual(events);
  });

  it("with the older official SDK (v1)", async () => {
    const transport = new StdioClientTransport1(SERVER);
    const sent: JSONRPCMessage[] = [];
    const send = transport.send.bind(transport);
    transport.send = (message) => {
      sent.push(message as JSONRPCMessage);
      return send(message);
    };
    const client = new Client1({ name: "test", version: "1.0.0" });
    const errors: Error[] = [];
    const notifications: Notification[] = [];
    client.onerror = (error) => errors.push(error);
    client.fallbackNotificationHandler = async (notification) => {
      notifications.push(notification as Notification);
    };
    await client.connect(transport);
    onTestFinished(() => client.close());
    const started = await client.callTool({ name: "start_noisy", arguments: {} });
    const { jobId } = started.structuredContent as { jobId: string };
    await expect.poll(() => eventsIn(notifications).some(isEnding), PATIENTLY).toBe(true);
    expectOnlyPushes(sent);
    expect(errors).toEqual([]);
    const page = await client.callTool({ name: "get_job_events", arguments: { jobId } });
    const { events } = page.structuredContent as { events: { eventId: string }[] };
    expect(eventsIn(notifications).map(({ event }) => event.eventId)).toEqual(
      events.map(({ eventId }) => eventId),
    );
    // This SDK checks structured content of failures too.
    const failure = await client.callTool({ name: "get_job", arguments: { jobId: "nothing" } });
    expect(failure).toMatchObject({ isError: true, structuredContent: { error: { code: "JOB_NOT_FOUND" } } });
  });
});

describe("stdout carries JSON-RPC and nothing else (FC-21)", () => {
  it("whatever jobs, worker threads and warnings print, up to the end of the process", async () => {
    const child = spawn(SERVER.command, SERVER.args, { stdio: ["pipe", "pipe", "pipe"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text) => {
      stderr += text;
    });
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      stdout += text;
    });
    const messages: Record<string, unknown>[] = [];
    const waiting = new Set<() => void>();
    createInterface({ input: child.stdout, crlfDelay: Number.POSITIVE_INFINITY }).on("line", () => {
      for (const wake of waiting) wake();
    });
    const seen = async (condition: () => boolean) => {
      while (!condition()) await new Promise<void>((resolve) => waiting.add(resolve));
    };
    const send = (message: object) =>
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

    const initialize = {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "raw", version: "1" },
    };
    send({ id: 1, method: "initialize", params: initialize });
    send({ method: "notifications/initialized" });
    send({ id: 2, method: "tools/call", params: { name: "start_noisy", arguments: { noise: true } } });
    for (let id = 3; id < 50; id += 1) send({ id, method: "tools/list" });
    await seen(() => stdout.includes("notifications/job/completed") && stdout.includes('"id":49'));
    child.stdin.end();
    const code = await new Promise((resolve) => child.once("close", resolve));

    const lines = stdout.split("\n");
    expect(lines.pop()).toBe("");
    for (const line of lines) messages.push(JSON.parse(line));
    expect(messages.every((message) => message.jsonrpc === "2.0")).toBe(true);
    expect(messages.filter(({ method }) => method === "notifications/forged")).toEqual([]);
    const answered = messages.flatMap(({ id }) => (id === undefined ? [] : [id]));
    expect(answered.toSorted((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 49 }, (_, i) => i + 1),
    );
    const seqs = eventsIn(messages).map(({ event }) => event.seq);
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));

    for (const text of [
      "stray line 1 with a\nnewline and\u2028a separator",
      "half a line without an end",
      "the end of a megabyte",
      "notifications/forged",
      "written with a callback",
      "from a worker thread",
      "printed before the connection is served",
      "printed after the connection has ended",
      "ended cleanly",
    ]) {
      expect(stderr).toContain(text);
    }
    expect(stderr).toContain("x".repeat(1024 * 1024));
    expect(code).toBe(0);
  });

  it("and the process ends by itself when the client closes stdin before saying anything", async () => {
    const child: ChildProcess = spawn(SERVER.command, SERVER.args, { stdio: ["pipe", "pipe", "ignore"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    let stdout = "";
    child.stdout?.on("data", (chunk) => {
      stdout += chunk;
    });
    child.stdin?.end();
    expect(await new Promise((resolve) => child.once("close", resolve))).toBe(0);
    expect(stdout).toBe("");
  });

  it("and the process ends cleanly when the reader goes away in the middle of a story", async () => {
    const child = spawn(SERVER.command, SERVER.args, { stdio: ["pipe", "pipe", "pipe"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    let stderr = "";
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
    });
    const send = (message: object) =>
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const initialize = {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "raw", version: "1" },
    };
    send({ id: 1, method: "initialize", params: initialize });
    send({ id: 2, method: "tools/call", params: { name: "start_noisy", arguments: { steps: 5000 } } });
    await new Promise<void>((resolve) => {
      child.stdout.on("data", (chunk) => {
        if (String(chunk).includes("notifications/job/started")) resolve();
      });
    });
    child.stdout.destroy();
    expect(await new Promise((resolve) => child.once("close", resolve))).toBe(0);
    expect(stderr).toContain("ended cleanly");
    expect(stderr).not.toMatch(/Unhandled|uncaught/i);
  });
});

describe("a client that speaks wrongly, or reads slowly", () => {
  async function open() {
    const child = spawn(SERVER.command, SERVER.args, { stdio: ["pipe", "pipe", "pipe"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    const texts = { out: "", err: "" };
    child.stdout.setEncoding("utf8").on("data", (text) => {
      texts.out += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text) => {
      texts.err += text;
    });
    const send = (message: object) =>
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const clientInfo = { name: "raw", version: "1" };
    send({
      id: 0,
      method: "initialize",
      params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo },
    });
    send({ method: "notifications/initialized" });
    const answers = (): Record<string, unknown>[] =>
      texts.out
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line));
    const answerTo = async (id: number) => {
      await expect.poll(() => answers().some((answer) => answer.id === id), PATIENTLY).toBe(true);
      return answers().find((answer) => answer.id === id);
    };
    const end = async () => {
      child.stdin.end();
      expect(await new Promise((resolve) => child.once("close", resolve))).toBe(0);
    };
    return { child, texts, send, answers, answerTo, end };
  }

  it("is told -32602 for wrong params of the SDK's own methods, in a sentence, and not that the server failed", async () => {
    const { send, answerTo, end } = await open();
    send({ id: 1, method: "tools/call", params: { arguments: {} } });
    send({ id: 2, method: "resources/read", params: { uri: 7 } });
    send({ id: 3, method: "logging/setLevel", params: { level: "loud" } });
    for (const [id, field] of [
      [1, "params.name"],
      [2, "params.uri"],
      [3, "params.level"],
    ] as const) {
      expect(await answerTo(id)).toMatchObject({
        error: {
          code: -32602,
          message: expect.stringMatching(new RegExp(`^The request was not accepted: ${field}: .*\\.$`)),
          data: { code: "BAD_INPUT", retryable: false },
        },
      });
    }
    await end();
  });

  it("costs the operator one short line for a thousand lines that are no JSON-RPC", async () => {
    const { child, texts, send, answerTo, end } = await open();
    await answerTo(0);
    const wrong = JSON.stringify({ jsonrpc: "1.0", method: 7, filler: "x".repeat(1_000) });
    for (let at = 0; at < 1_000; at += 1) child.stdin.write(`${wrong}\n`);
    send({ id: 1, method: "ping" });
    await answerTo(1);
    await end();
    const reports = texts.err.split("\n").filter((line) => line.includes('"level":"error"'));
    expect(reports).toHaveLength(1);
    expect(reports[0]?.length).toBeLessThan(300);
    expect(JSON.parse(reports[0] ?? "")).toMatchObject({ code: "BAD_MESSAGE" });
  });

  it("is waited for without a warning when it reads slowly", async () => {
    const { child, texts, send, answerTo, answers, end } = await open();
    await answerTo(0);
    child.stdout.pause();
    for (let id = 1; id <= 2_000; id += 1) send({ id, method: "tools/list" });
    // Read again once the server has stopped reading, or has read all of it: its pipe is full of answers by then.
    await new Promise<void>((resolve) => {
      if (!child.stdin.writableNeedDrain) resolve();
      else child.stdin.once("drain", resolve);
    });
    child.stdout.resume();
    await answerTo(2_000);
    expect(answers().length).toBeGreaterThanOrEqual(2_001);
    await end();
    expect(texts.err).not.toContain("MaxListenersExceededWarning");
  });
});
