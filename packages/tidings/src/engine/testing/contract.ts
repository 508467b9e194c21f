/** The contract that every engine fulfils: what the port says, edge by edge. */
import { describeApply } from "./contract/apply.ts";
import { describeBounds } from "./contract/bounds.ts";
import { describeClaim } from "./contract/claim.ts";
import { describeIsolation } from "./contract/isolation.ts";
import { describeLifetime } from "./contract/lifetime.ts";
import { describeRead } from "./contract/read.ts";
import { describeShares } from "./contract/shares.ts";
import { describeStart } from "./contract/start.ts";
import { describeTransaction } from "./contract/transaction.ts";
import { type Contract, createContract, type OpenEngine, type TestFunctions } from "./contract/world.ts";

const SECTIONS: Readonly<Record<string, (contract: Contract) => void>> = {
  "starting jobs": describeStart,
  "claiming and leases": describeClaim,
  "changing jobs": describeApply,
  "transactions, values and collections": describeTransaction,
  "reading, publishing and listing": describeRead,
  "owners and hostile texts": describeIsolation,
  "bounds of what is kept": describeBounds,
  "what each owner keeps": describeShares,
  "watching, pruning and closing": describeLifetime,
};

/**
 * Describes an engine: `describeEngine("mine", ({ clock, random }) => createMyEngine({ clock, random }), { describe, test })`
 * with the functions of vitest, of `node:test`, or any like them. The assertions are `node:assert`'s.
 *
 * @param open - Opens a fresh, empty store. Leases and delays must be measured by the given clock.
 */
export function describeEngine(name: string, open: OpenEngine, functions: TestFunctions): void {
  functions.describe(`the engine contract, ${name}`, () => {
    for (const [section, describeSection] of Object.entries(SECTIONS)) {
      functions.describe(section, () => describeSection(createContract(open, functions)));
    }
  });
}
