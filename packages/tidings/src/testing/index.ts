/** For tests of programs that use Tidings, and of engines that strangers write. */
export type { OpenEngine, TestFunctions } from "../engine/testing/contract/world.ts";
export { describeEngine } from "../engine/testing/contract.ts";
export type {
  Fault,
  FaultEngine,
  FaultPlan,
  FaultRule,
  Write,
  WriteMethod,
} from "../engine/testing/fault-engine.ts";
export { createFaultEngine } from "../engine/testing/fault-engine.ts";
export { createManualClock, type ManualClock } from "../engine/testing/manual-clock.ts";
export { createSeededRandom } from "../engine/testing/seeded-random.ts";
export type { CrashOptions, CrashReport } from "./crash-everywhere.ts";
export { crashEverywhere } from "./crash-everywhere.ts";
export type { CrashWorld } from "./crash-run.ts";
export type { CrashPorts, CrashStore, OpenCrashStore } from "./crash-store.ts";
export type { CrashOutcome } from "./difference.ts";
export type { Effect, Effects } from "./effects.ts";
export { createEffects } from "./effects.ts";
