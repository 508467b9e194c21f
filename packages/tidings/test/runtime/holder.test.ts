/** Who is certainly gone, and of whom nobody here can tell. */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { systemRandom } from "../../src/engine/system-clock.ts";
import { createHolder, isGone } from "../../src/runtime/holder.ts";

const [host, pid, ticks, namespace, thread] = createHolder(systemRandom).name.split("/") as [
  string,
  string,
  string,
  string,
  string,
];
const nameOf = (
  parts: Partial<Record<"host" | "pid" | "ticks" | "namespace" | "thread", string>>,
): string => {
  const all = { host, pid, ticks, namespace, thread, ...parts };
  return [all.host, all.pid, all.ticks, all.namespace, all.thread, "AAAAAAAAAAAAAAAAAAAAAA"].join("/");
};
const deadPid = String(spawnSync(process.execPath, ["--eval", ""]).pid);

test("a holder lives until it is released", () => {
  const holder = createHolder(systemRandom);
  expect(isGone(holder.name)).toBe(false);
  holder.release();
  expect(isGone(holder.name)).toBe(true);
});

test.each([
  ["a process that ended", { pid: deadPid, ticks: "" }, true],
  ["a process whose pid was given to this one", { ticks: "1" }, true],
  ["another machine", { host: "elsewhere", pid: deadPid }, false],
  [
    "another container under one hostname, whose pids mean nothing here",
    { pid: deadPid, namespace: "pid:[1]" },
    false,
  ],
  ["another thread of this process", { thread: String(Number(thread) + 1) }, false],
  ["a process that lives", { pid: String(process.ppid), ticks: "" }, false],
])("%s", (_, parts, gone) => {
  expect(isGone(nameOf(parts))).toBe(gone);
});

test.each(["", "a/b", `${host}/${deadPid}//AAAA`, "////////", `${host}/x/1/${namespace}/0/A`])(
  "of a name that says something else, %j, nobody can tell",
  (name) => {
    expect(isGone(name)).toBe(false);
  },
);

test("two threads of one process do not take each other for gone", async () => {
  const { name } = createHolder(systemRandom);
  const source = `
    import { parentPort, workerData } from "node:worker_threads";
    import { tsImport } from ${JSON.stringify(import.meta.resolve("tsx/esm/api"))};
    const { isGone } = await tsImport(workerData.module, workerData.module);
    parentPort.postMessage(isGone(workerData.name));
  `;
  const module = new URL("../../src/runtime/holder.ts", import.meta.url).href;
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(source)}`), {
    workerData: { module, name },
  });
  expect(await once(worker, "message")).toEqual([false]);
  await worker.terminate();
});
