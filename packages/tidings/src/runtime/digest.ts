/** A digest of JSON that does not depend on the order of keys. */
import { hash } from "node:crypto";

export function digestOf(value: unknown): string {
  return hash("sha256", canonicalJson(value), "base64url");
}

/**
 * JSON with sorted keys, as JSON.stringify would understand the value: two values are the same when their texts are.
 * What JSON cannot say is told apart too: `undefined` is a text of its own, and a BigInt is `"1n"`.
 */
export function canonicalJson(value: unknown): string {
  const text = JSON.stringify(value, (_key, part: unknown) => {
    if (typeof part === "bigint") return `${part}n`;
    if (typeof part !== "object" || part === null || Array.isArray(part)) return part;
    return Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
  return text ?? "undefined";
}
