/** Characters that move a terminal's cursor, colour it, hide text or turn its direction. */
const ACTIVE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** A text that is safe to print: what could act on a terminal stands escaped, and what is too long is cut. */
export function toInert(text: string, maxChars = 400): string {
  const cut = text.length > maxChars ? `${text.slice(0, maxChars)}…` : text;
  return cut.replace(ACTIVE, (each) => `\\u{${(each.codePointAt(0) ?? 0).toString(16)}}`);
}

/** One JSON line in ASCII where it matters: the same values, and nothing that acts on a terminal. */
export function toInertJson(value: unknown): string {
  return JSON.stringify(value).replace(ACTIVE, (each) =>
    [...Array(each.length).keys()]
      .map((index) => `\\u${each.charCodeAt(index).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}
