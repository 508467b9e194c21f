import { afterAll, beforeAll, expect, test } from "vitest";
import { type Connection, createConnection, loadDatabase } from "../../src/engine/sqlite/driver.ts";
import { createSqliteEngine } from "../../src/engine/sqlite/engine.ts";
import { SQL, type StatementName } from "../../src/engine/sqlite/sql.ts";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";
import { makeFolder } from "./folder.ts";

let connection: Connection;

beforeAll(async () => {
  const path = `${makeFolder()}/jobs.db`;
  await (await createSqliteEngine({ path, clock: systemClock, random: systemRandom })).close();
  const DatabaseSync = await loadDatabase();
  connection = createConnection(new DatabaseSync(path));
});

afterAll(() => connection.database.close());

function planOf(name: StatementName): string[] {
  return connection.database
    .prepare(`EXPLAIN QUERY PLAN ${SQL[name]}`)
    .all()
    .map(({ detail }) => String(detail));
}

/** Statements without a search of their own, and the one that walks an index which holds only what is leased now. */
const NO_SEARCH: readonly StatementName[] = [
  "begin",
  "beginWriting",
  "commit",
  "savepoint",
  "rollbackToSavepoint",
  "releaseSavepoint",
  "dataVersion",
  "pageCount",
  "freePages",
  "pageSize",
  "holders",
];

test.each(
  (Object.keys(SQL) as StatementName[]).filter(
    (name) => !NO_SEARCH.includes(name) && !SQL[name].startsWith("INSERT"),
  ),
)("%s searches an index and sorts nothing", (name) => {
  const plan = planOf(name);
  expect(plan.length).toBeGreaterThan(0);
  for (const step of plan) {
    if (/json_each|LIST SUBQUERY|BLOOM FILTER/.test(step)) continue;
    if (name === "ownersAfter" && step === "USE TEMP B-TREE FOR DISTINCT") continue;
    expect(step).toMatch(/^SEARCH /);
  }
});

test("holders walks the leases only", () => {
  expect(planOf("holders")[0]).toMatch(/USING (COVERING )?INDEX tidings_job_leased/);
});

test("a list by status and correlation uses the correlation, which is narrower", () => {
  expect(planOf("listByBoth")[0]).toContain("tidings_job_correlation");
});

test("reports of progress touch no index", () => {
  const columns = /SET (.*) WHERE/.exec(SQL.updateStory)?.[1] ?? "";
  expect(columns.match(/\w+(?= = )/g)).toEqual(["position", "counts", "job"]);
});

test("every statement that concerns an owner is bound to it", () => {
  const unbound = (Object.keys(SQL) as StatementName[]).filter(
    (name) => /tidings_/.test(SQL[name]) && !/owner = \?|\(owner, /.test(SQL[name]),
  );
  expect(unbound).toEqual([
    "readyAfterDelay",
    "readyAfterRestart",
    "ready",
    "expired",
    "nextDelayed",
    "nextLeased",
    "holders",
    "headOfLog",
    "ownersAfter",
    "usagesAbove",
    "deleteExpired",
    "wordyJobs",
    "endedJobs",
    "oldPublished",
    "nextOwner",
  ]);
});
