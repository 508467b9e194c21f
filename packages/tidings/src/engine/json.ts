/** What engines keep is JSON text, so that every engine gives back the same thing, and never the caller's own object. */
import { TidingsError } from "../model/error.ts";

/** @throws TidingsError BAD_INPUT when the value is no JSON: circular, nested too deeply, a BigInt, a function, undefined. */
export function toJson(value: unknown, what: string): string {
  let text: string | undefined;
  let cause: unknown;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    cause = error;
  }
  if (text !== undefined) return text;
  throw new TidingsError("BAD_INPUT", `${what} cannot be written as JSON, so nothing was changed.`, {
    hint: "Pass plain objects, arrays, texts, numbers, booleans and null, without circular references.",
    cause,
  });
}

/** Reads what `toJson` wrote; undefined for what was never written. */
export function fromJson(text: string | null | undefined): unknown {
  return text === null || text === undefined ? undefined : JSON.parse(text);
}
