/** How long a name from outside may be where it is kept: ids, URIs and cursors of what a connection follows. */
import { TidingsError } from "../../model/error.ts";

/** The longest name, in characters. */
export const MAX_NAME_LENGTH = 2_048;
/** The names of one listen, or of the subscriptions of one session, together, in characters. */
export const MAX_NAMES_LENGTH = 131_072;

/** Whether a value from outside is a name that may be kept. */
export function isName(value: unknown): value is string {
  return typeof value === "string" && value.length > 0 && value.length <= MAX_NAME_LENGTH;
}

/** @throws TidingsError BAD_INPUT. The name itself is not repeated: it may be of any length. */
export function checkName(value: string, what: string): void {
  if (value.length > 0 && value.length <= MAX_NAME_LENGTH) return;
  throw new TidingsError(
    "BAD_INPUT",
    `${what} has ${value.length} characters; it must have 1 to ${MAX_NAME_LENGTH}.`,
    { hint: "Send the name as it was given to you.", data: { limit: MAX_NAME_LENGTH } },
  );
}

/** The refusal of a request whose id is longer. */
export function longId(): TidingsError {
  return new TidingsError(
    "BAD_MESSAGE",
    `The id of the request is longer than ${MAX_NAME_LENGTH} characters.`,
    { hint: "Number your requests.", data: { limit: MAX_NAME_LENGTH } },
  );
}

export function lengthOf(names: Iterable<string>): number {
  let length = 0;
  for (const name of names) length += name.length;
  return length;
}
