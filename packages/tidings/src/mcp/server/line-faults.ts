/** Lines on stdin that are no JSON-RPC: the operator hears of them in one short line, now and then. */
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";

/** How long nothing more is said after a report; what came meanwhile is counted in the next. */
const QUIET_MS = 10_000;

/** @returns what hears a transport's faults; all others are passed on as they are. */
export function createLineFaults(
  clock: Pick<Clock, "monotonic">,
  report: (error: Error) => void,
): (error: Error) => void {
  let quietUntil = Number.NEGATIVE_INFINITY;
  let untold = 0;
  return (error) => {
    // The SDK says no more of it than that its schema did not fit.
    if (error.name !== "ZodError") return report(error);
    const now = clock.monotonic();
    if (now < quietUntil) {
      untold += 1;
      return;
    }
    const more = untold === 0 ? "" : ` ${untold} more came since the last report.`;
    const fault = new TidingsError("BAD_MESSAGE", `A line on stdin is no JSON-RPC message.${more}`, {
      hint: "The client on the other side does not speak MCP, or prints on its own pipe.",
    });
    // Who is at fault wrote the line; where it was noticed says nothing.
    fault.stack = fault.message;
    quietUntil = now + QUIET_MS;
    untold = 0;
    report(fault);
  };
}
