/** For tests of programs that use Tidings, and of engines that strangers write. */
export type { OpenEngine, TestFunctions } from "../engine/testing/contract/world.ts";
export { describeEngine } from "../engine/testing/contract.ts";
export { createManualClock, type ManualClock } from "../engine/testing/manual-clock.ts";
export { createSeededRandom } from "../engine/testing/seeded-random.ts";
