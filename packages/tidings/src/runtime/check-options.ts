/** What `createTidings` refuses before it opens anything. */
import { TidingsError } from "../model/error.ts";

/** The smallest value of each number, and whether it may have fractions or be infinite. */
const NUMBERS = {
  concurrency: { least: 0, isCount: true },
  leaseMs: { least: 1, isCount: false, isFinite: true },
  retentionMs: { least: 0, isCount: false },
  retentionBytes: { least: 1, isCount: false },
  compactAfterMs: { least: 0, isCount: false },
} as const;

type Numbers = { readonly [Name in keyof typeof NUMBERS]?: number };

/** @throws TidingsError BAD_DEFINITION, naming the option. */
export function checkOptions(options: Numbers): void {
  for (const [name, rule] of Object.entries(NUMBERS)) {
    const value: unknown = options[name as keyof Numbers];
    if (value === undefined) continue;
    const isBounded = rule.isCount || "isFinite" in rule;
    const fits =
      typeof value === "number" &&
      value >= rule.least &&
      (!isBounded || Number.isFinite(value)) &&
      (!rule.isCount || Number.isInteger(value));
    if (fits) continue;
    const kind = rule.isCount ? "a whole number" : isBounded ? "a finite number" : "a number";
    throw new TidingsError(
      "BAD_DEFINITION",
      `${name} is ${String(value)}, but must be ${kind} from ${rule.least} on.`,
    );
  }
}
