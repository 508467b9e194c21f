import { describe, test } from "vitest";
import { createMemoryEngine } from "../../src/engine/memory/engine.ts";
import { describeEngine } from "../../src/testing/index.ts";

describeEngine("memory", async (ports) => createMemoryEngine(ports), { describe, test });
