/** For tests of programs that use Tidings, and of engines that strangers write. */
export type { OpenEngine, TestFunctions } from "./contract/world.ts";
export { describeEngine } from "./contract.ts";
export { createManualClock, type ManualClock } from "./manual-clock.ts";
export { createSeededRandom } from "./seeded-random.ts";
