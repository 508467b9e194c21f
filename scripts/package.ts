/**
 * Checks the package as a stranger gets it: packs it, lints the tarball, installs it into an empty project (without
 * running any install script) and runs a program on it with plain Node. Wants a fresh `npm run build`.
 */
import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { entries, packageFolder, root } from "./entries.ts";

const scratch = await mkdtemp(join(tmpdir(), "tidings-package-"));

async function pack(): Promise<string> {
  const output = run(
    "npm pack",
    "npm",
    ["pack", "--json", "--pack-destination", scratch, packageFolder],
    true,
  );
  const [packed] = JSON.parse(output) as [{ filename: string; size: number; files: { path: string }[] }];
  for (const wanted of ["LICENSE", "README.md", "dist/index.js", "dist/index.d.ts", "schema/message.json"]) {
    if (!packed.files.some((file) => file.path === wanted)) fail(`npm pack: ${wanted} is not in the tarball`);
  }
  const stray = packed.files.filter(({ path }) => /^(?:src|test|api)\/|\.tsbuildinfo$|\.db$/.test(path));
  if (stray.length > 0)
    fail(`npm pack: ${stray.map((file) => file.path).join(", ")} should not be published`);
  console.log(`${packed.filename}: ${packed.files.length} files, ${packed.size} bytes`);
  return join(scratch, packed.filename);
}

/** The program of a stranger's first minute. */
const PROGRAM = `
import { createTidings, defineJob } from "tidings";

const input = {
  "~standard": { version: 1, vendor: "none", validate: (value) => ({ value }) },
};
const greet = defineJob("greet", {
  input,
  stages: { think: 50, speak: 100 },
  run: async ({ name }, { progress }) => {
    await progress("think", 1);
    return { summary: "greeted", result: { text: "Hello " + name } };
  },
});
const tidings = await createTidings({ store: "sqlite:./jobs.db", jobs: [greet] });
const { jobId, cursor } = await tidings.start(greet, { name: "Ada" });
const story = [];
const reading = new AbortController();
for await (const item of tidings.tail({ owner: "local", jobIds: [jobId], after: cursor, signal: reading.signal })) {
  if (item.kind === "event") story.push(item.event.type + ":" + (item.event.percentage ?? ""));
  if (story.at(-1) === "job.completed:") break;
}
const result = await tidings.result("local", jobId);
await tidings.close();
const told = story.join(" ") + " " + result.text;
const wanted = "job.created: job.started: job.progress:50 job.progress:100 job.completed: Hello Ada";
if (told !== wanted) throw new Error("The story was: " + told);
console.log(told);
`;

const JOBS = `
import { defineJob } from "tidings";

const input = { "~standard": { version: 1, vendor: "none", validate: (value) => ({ value }) } };
export const alone = defineJob("alone", { input, isolate: true, run: () => ({ result: process.pid }) });
`;

const ISOLATED = `
import { createTidings } from "tidings";
import { alone } from "./jobs.js";

const tidings = await createTidings({ store: "sqlite:./jobs.db", jobs: [alone] });
const { jobId } = await tidings.start(alone, {});
const reading = new AbortController();
for await (const item of tidings.tail({ owner: "local", jobIds: [jobId], signal: reading.signal })) {
  if (item.kind === "event" && /completed|failed/.test(item.event.type)) break;
}
const pid = await tidings.result("local", jobId);
await tidings.close();
if (typeof pid !== "number" || pid === process.pid) throw new Error("The attempt ran in process " + pid);
console.log("by a process of its own");
`;

async function tryOut(tarball: string): Promise<void> {
  const project = join(scratch, "project");
  await mkdir(project);
  await writeFile(
    join(project, "package.json"),
    '{ "name": "a-stranger", "private": true, "type": "module" }\n',
  );
  await writeFile(join(project, "first.js"), PROGRAM);
  await writeFile(join(project, "jobs.js"), JOBS);
  await writeFile(join(project, "isolated.js"), ISOLATED);
  const all = (await entries()).map((entry) => entry.specifier);
  await writeFile(
    join(project, "entries.js"),
    `${all.map((name) => `await import(${JSON.stringify(name)});`).join("\n")}\nconsole.log("${all.length} entries load");\n`,
  );
  const flags = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", tarball];
  run("npm install of the tarball", "npm", flags, true, project);
  run("the first program", process.execPath, ["first.js"], false, project);
  run("an attempt in a process of its own", process.execPath, ["isolated.js"], false, project);
  const command = join(project, "node_modules", ".bin", "tidings");
  run("the command", command, ["inspect", "--store", "sqlite:./jobs.db"], false, project);
  run("every entry", process.execPath, ["entries.js"], false, project);
}

function run(name: string, command: string, args: readonly string[], quiet = false, cwd = root): string {
  console.log(`— ${name}`);
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", quiet ? "pipe" : "inherit", quiet ? "pipe" : "inherit"],
  });
  if (status !== 0)
    fail(`${name} failed${error === undefined ? "" : `: ${error.message}`}\n${stdout ?? ""}${stderr ?? ""}`);
  return stdout ?? "";
}

function fail(sentence: string): never {
  throw new Error(sentence);
}

try {
  const tarball = await pack();
  run("publint", "npx", ["--no-install", "publint", "run", tarball, "--strict"]);
  run("attw", "npx", ["--no-install", "attw", tarball, "--profile", "esm-only"]);
  await tryOut(tarball);
  run("knip", "npx", ["--no-install", "knip"]);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  await rm(scratch, { recursive: true, force: true });
}
