/** A digest of JSON that does not depend on the order of keys. */
import { hash } from "node:crypto";

export function digestOf(value: unknown): string {
  return hash("sha256", canonicalJson(value), "base64url");
}

/** JSON with sorted keys, as JSON.stringify would understand the value. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
      : part,
  );
}
