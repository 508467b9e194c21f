/** Addresses identify people: one way to compare them, one check that they are addresses at all. */

/** The address as it is compared: trimmed, composed (NFC), in lower case. */
export function normalizeEmail(text: string): string {
  return text.trim().normalize("NFC").toLowerCase();
}

/** Characters that no address in an employee file has: spaces, controls, bidi marks, brackets, quotes, lists. */
const FOREIGN = /[\s\p{C}<>()[\]\\,;:"]/u;

/**
 * Whether a text has the shape `local@domain.tld`; works in linear time on any text.
 * Letters of all scripts are fine; quoted local parts, comments and address literals are not.
 */
export function isEmail(text: string): boolean {
  if (text.length > 254) return false;
  const at = text.indexOf("@");
  if (at < 1 || at > 64 || at !== text.lastIndexOf("@") || FOREIGN.test(text)) return false;
  const local = text.slice(0, at);
  const labels = text.slice(at + 1).split(".");
  if (local.startsWith(".") || local.endsWith(".") || local.includes("..")) return false;
  return (
    labels.length >= 2 &&
    labels.every(
      (label) => /^[\p{L}\p{N}\p{M}-]{1,63}$/u.test(label) && !label.startsWith("-") && !label.endsWith("-"),
    )
  );
}
