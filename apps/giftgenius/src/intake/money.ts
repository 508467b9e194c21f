/**
 * Money as people type it: `49.90`, `49,9`, `1.234,56`, `1'234.50`, `1 234,50 €`, `US$ 50`, `50.-`, `１２０`.
 *
 *   prefix        core            suffix
 *   sign, mark    digits and      mark, sign,
 *   or code       separators      `.-`
 *
 * Two kinds of separators: the last one is the decimal mark. One kind, once, with other than three digits behind
 * it: the decimal mark. One kind, once, with three digits behind it: thousands, and said to be unclear.
 */

/** What a budget cell says. Amounts are integer hundredths, cut (never rounded up) behind the second decimal. */
export type MoneyReading =
  | {
      readonly kind: "amount";
      readonly cents: number;
      /** The ISO codes that the mark or code beside the number can mean; absent when there is none. */
      readonly currencies?: readonly string[];
      /** `1.234` may be meant as 1.234 or as 1234; it was read as 1234. */
      readonly unclear: boolean;
    }
  | { readonly kind: "empty" | "unreadable" | "not_positive" | "too_large" };

/** Ten million units of a currency: what is more is taken for a slip. */
export const MAX_MONEY_CENTS = 1_000_000_000;

const DOLLARS = ["USD", "CAD", "MXN", "AUD", "NZD", "SGD", "HKD"];
const MARKS: ReadonlyMap<string, readonly string[]> = new Map([
  ["$", DOLLARS],
  ["DOLLAR", DOLLARS],
  ["DOLLARS", DOLLARS],
  ["US$", ["USD"]],
  ["C$", ["CAD"]],
  ["CA$", ["CAD"]],
  ["MX$", ["MXN"]],
  ["A$", ["AUD"]],
  ["€", ["EUR"]],
  ["EURO", ["EUR"]],
  ["EUROS", ["EUR"]],
  ["£", ["GBP"]],
  ["FR", ["CHF"]],
  ["FR.", ["CHF"]],
  ["SFR", ["CHF"]],
  ["¥", ["JPY", "CNY"]],
  ["CN¥", ["CNY"]],
  ["JP¥", ["JPY"]],
  ["RMB", ["CNY"]],
  ["YUAN", ["CNY"]],
  ["元", ["CNY"]],
  ["人民币", ["CNY"]],
  ["美元", ["USD"]],
  ["欧元", ["EUR"]],
  ["YEN", ["JPY"]],
  ["円", ["JPY"]],
]);
const CODES: ReadonlySet<string> = new Set(Intl.supportedValuesOf("currency"));
const MAX_TEXT = 64;

/**
 * Reads an amount of money. Never throws.
 *
 * Currencies without hundredths (JPY) are counted in hundredths too, so that every amount has one unit: 5000 yen
 * are 500000. Zero and negative amounts are `not_positive`, above `MAX_MONEY_CENTS` is `too_large`, and ranges,
 * words and everything else that is not one number is `unreadable`.
 */
export function parseMoneyCents(text: string): MoneyReading {
  // Nearly every cell is as plain as this; the rest of the function would read it alike, more slowly.
  if (/^[1-9][0-9]{0,6}(?:\.[0-9]{2})?$/.test(text)) {
    return { kind: "amount", cents: Math.round(Number(text) * 100), unclear: false };
  }
  const plain = text
    .replace(/[\uFF01-\uFF5E]/g, (wide) => String.fromCharCode(wide.charCodeAt(0) - 0xfee0))
    .replaceAll("\uFFE5", "¥")
    .replace(/[\u2212\u2012\u2013\u2014]/g, "-")
    .replace(/[’‘´`]/g, "'")
    .trim();
  if (plain === "") return { kind: "empty" };
  if (plain.length > MAX_TEXT) return { kind: "unreadable" };
  let first = plain.search(/[0-9]/);
  if (first < 0) return { kind: "unreadable" };
  // A leading decimal mark belongs to the number: ".50".
  if (first > 0 && /[.,]/.test(plain.charAt(first - 1)) && !/[A-Z]/i.test(plain.charAt(first - 2)))
    first -= 1;
  let last = plain.length - 1;
  while (!/[0-9]/.test(plain.charAt(last))) last -= 1;

  const around = readAround(plain.slice(0, first), plain.slice(last + 1));
  const number = readNumber(plain.slice(first, last + 1));
  if (around === undefined || number === undefined) return { kind: "unreadable" };
  if (number.whole.length > 12) return { kind: "too_large" };
  const cents = Number(number.whole) * 100 + Number(number.decimals.padEnd(2, "0").slice(0, 2));
  if (around.negative || cents === 0) return { kind: "not_positive" };
  if (cents > MAX_MONEY_CENTS) return { kind: "too_large" };
  return {
    kind: "amount",
    cents,
    unclear: number.unclear,
    ...(around.currencies === undefined ? {} : { currencies: around.currencies }),
  };
}

/** Whether a currency has no hundredths, so that its amounts are whole units (times 100, as everywhere). */
export function hasWholeUnits(currency: string): boolean {
  if (!CODES.has(currency)) return false;
  const format = new Intl.NumberFormat("en", { style: "currency", currency });
  return format.resolvedOptions().maximumFractionDigits === 0;
}

/** Signs, marks and codes beside the number; undefined when something else stands there. */
function readAround(
  before: string,
  after: string,
): { negative: boolean; currencies?: readonly string[] } | undefined {
  let prefix = before.replace(/\s/g, "");
  let suffix = after.replace(/\s/g, "").replace(/^[.,](?:--?)?/, "");
  let negative = false;
  if (prefix.startsWith("(") && suffix.endsWith(")")) {
    prefix = prefix.slice(1);
    suffix = suffix.slice(0, -1);
    negative = true;
  }
  for (const sign of ["-", "+"]) {
    const signs = [
      prefix.startsWith(sign),
      prefix.length > 1 && prefix.endsWith(sign),
      suffix.endsWith(sign),
    ];
    if (signs.filter(Boolean).length > 1) return undefined;
    if (signs[0]) prefix = prefix.slice(1);
    if (signs[1]) prefix = prefix.slice(0, -1);
    if (signs[2]) suffix = suffix.slice(0, -1);
    if (signs.includes(true) && sign === "-") negative = true;
  }
  let currencies: readonly string[] | undefined;
  for (const mark of [prefix, suffix]) {
    if (mark === "") continue;
    const meant = currenciesOf(mark.toUpperCase());
    if (meant === undefined) return undefined;
    currencies = currencies === undefined ? meant : currencies.filter((code) => meant.includes(code));
    if (currencies.length === 0) return undefined;
  }
  return { negative, ...(currencies === undefined ? {} : { currencies }) };
}

function currenciesOf(mark: string): readonly string[] | undefined {
  return MARKS.get(mark) ?? (CODES.has(mark) ? [mark] : undefined);
}

function readNumber(core: string): { whole: string; decimals: string; unclear: boolean } | undefined {
  const groups = core.split(/[^0-9]+/);
  const separators = (core.match(/[^0-9]+/g) ?? []).map((text) => (text.trim() === "" ? " " : text));
  if (separators.some((separator) => !/^[.,' ]$/.test(separator))) return undefined;
  const kinds = [...new Set(separators)];
  const lastGroup = groups.at(-1) ?? "";
  const lastSeparator = separators.at(-1);
  if (lastSeparator === undefined) return { whole: core, decimals: "", unclear: false };

  const isDecimalMark = lastSeparator === "." || lastSeparator === ",";
  if (kinds.length === 1) {
    if (separators.length === 1 && isDecimalMark) {
      const lead = groups[0] ?? "";
      const looksLikeThousands = lastGroup.length === 3 && /^[1-9][0-9]{0,2}$/.test(lead);
      return looksLikeThousands
        ? { whole: lead + lastGroup, decimals: "", unclear: true }
        : { whole: lead === "" ? "0" : lead, decimals: lastGroup, unclear: false };
    }
    return isGrouped(groups) ? { whole: groups.join(""), decimals: "", unclear: false } : undefined;
  }
  const isOnce = separators.filter((separator) => separator === lastSeparator).length === 1;
  if (kinds.length !== 2 || !isDecimalMark || !isOnce || !isGrouped(groups.slice(0, -1))) return undefined;
  return { whole: groups.slice(0, -1).join(""), decimals: lastGroup, unclear: false };
}

/** 1 234 567 everywhere, 12,34,567 in India. */
function isGrouped(groups: readonly string[]): boolean {
  const [lead = "", ...rest] = groups;
  if (!/^[0-9]{1,3}$/.test(lead) || rest.at(-1)?.length !== 3) return false;
  const middle = rest.slice(0, -1);
  return (
    middle.every((group) => group.length === 3) ||
    (lead.length < 3 && middle.every((group) => group.length === 2))
  );
}
