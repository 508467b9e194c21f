/** How words are brought into one form, and when two words are taken for the same. */

/** Lower case, without accents and punctuation, single spaces: `Échecs!` and `echecs` are one. */
export function normalizePhrase(text: string): string {
  return text
    .normalize("NFKD")
    .toLowerCase()
    .replace(/\p{M}+/gu, "")
    .replaceAll("œ", "oe")
    .replaceAll("æ", "ae")
    .replaceAll("ø", "o")
    .replaceAll("ł", "l")
    .replaceAll("ß", "ss")
    .replace(/['’`´]/g, " ")
    .replace(/[^\p{L}\p{N}&+#]+/gu, " ")
    .trim();
}

/** Whether a text holds Chinese characters, which are written without spaces. */
export function isHan(text: string): boolean {
  return /\p{Script=Han}/u.test(text);
}

/**
 * How far a typed word is from a known one: 0 the same, 1 another ending or another spelling of the same sound,
 * 2 or 3 one or two slips of the keyboard; undefined when they are different words.
 *
 * Careful on purpose: short words must be exact (`gold` is not `golf`), the first letter must be right, slips are
 * counted against the shorter word (`cards` is not `cars`), and below seven letters a wrong letter makes another
 * word (`proto` is not `photo`), a missing, added or swapped one does not.
 */
export function wordDistance(typed: string, known: string): number | undefined {
  if (typed === known) return 0;
  if (typed[0] !== known[0]) return undefined;
  if (isOtherEnding(typed, known) || soundsAlike(typed, known)) return 1;
  const shorter = Math.min(typed.length, known.length);
  const allowed = shorter < 5 ? 0 : shorter < 8 ? 1 : 2;
  if (Math.abs(typed.length - known.length) > allowed) return undefined;
  const slips = countSlips(typed, known, shorter < 7 ? 2 : 1);
  return slips <= allowed ? slips + 1 : undefined;
}

/** `tea` and `teas`, `drone` and `drones`, `garden` and `gardener`. */
function isOtherEnding(a: string, b: string): boolean {
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  if (!long.startsWith(short)) return false;
  const ending = long.slice(short.length);
  return (short.length >= 3 && ending === "s") || (short.length >= 5 && ending.length <= 2);
}

/** `chese` and `cheese`, `musik` and `music`, `ajedres` and `ajedrez`. */
function soundsAlike(a: string, b: string): boolean {
  return Math.min(a.length, b.length) >= 4 && soundOf(a) === soundOf(b);
}

function soundOf(word: string): string {
  return word
    .replaceAll("ph", "f")
    .replace(/[kq]/g, "c")
    .replaceAll("z", "s")
    .replaceAll("y", "i")
    .replace(/(.)\1+/gu, "$1");
}

/** Letters added, left out or swapped with their neighbour count 1, wrong letters as given. */
function countSlips(a: string, b: string, wrongLetter: number): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = a[i - 1] === b[j - 1] ? 0 : wrongLetter;
      let cost = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + change);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, (beforeLast[j - 2] ?? 0) + 1);
      }
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}
