import { describe, test } from "vitest";
import { createSqliteEngine } from "../../src/engine/sqlite/engine.ts";
import { describeEngine } from "../../src/testing/index.ts";
import { makeFolder } from "./folder.ts";

describeEngine(
  "SQLite",
  (ports) => createSqliteEngine({ path: `${makeFolder({ inMemory: true })}/jobs.db`, ...ports }),
  {
    describe,
    test,
  },
);
