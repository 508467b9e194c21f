/**
 * Writes an employee file of any length: the same people for the same number of rows, always.
 *
 *   tsx apps/giftgenius/examples/make-employees.ts --rows 2000 --out apps/giftgenius/examples/employees-2000.csv
 *
 * All people are invented. Every 2,000 rows hold, on purpose:
 *   6 that are refused   2 repeated people, 2 without an address, 1 with a broken address, 1 with a negative budget
 *   8 worth a warning    7 with an interest that no shop knows, 1 budget with unclear thousands
 */
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { pathToFileURL } from "node:url";

const HEADER = "employee_id,full_name,email,department,interests,budget\n";
const BLOCK = 2_000;

const FIRST_NAMES =
  "Ada Amina Ana Anders Aoife Arjun Aylin Ben Bruno Camille Carlos Chiara Chloé Daniel Diego Elena Emeka Emma Erik Fatima Felix Gabriel Grace Hana Hugo Ines Isabel Ivan Jakub Jia Joao José Julia Kai Karim Kateryna Kofi Lars Laura Layla Leila Leo Lin Lucía Łukasz Mai Malik Marco Maria Mateo Maya Mei Miguel Mila Minh Mohamed Nadia Naomi Nia Nina Noah Noor Nour Olga Oliver Omar Oskar Paula Pedro Petra Priya Rafael Rania Ravi Renée Rosa Ruth Samir Sara Sofia Søren Sven Tanvi Tao Teresa Thandi Theo Tomás Uma Valentina Viktor Wanjiru Wei Xin Yara Yuki Yusuf Zeynep Zoe".split(
    " ",
  );
const LAST_NAMES =
  "Abad Adeyemi Aguilar Ahmed Almeida Andersson Arslan Bauer Becker Benali Bernard Bianchi Bondarenko Brennan Brown Castillo Chaudhry Chen Costa Cruz Díaz Dubois Eriksen Evans Fernández Ferrari Fischer Fontaine Fournier García Gómez Gupta Haddad Hansen Hassan Hernández Horváth Huang Ibrahim Ivanova Jansen Johnson Jones Kamau Kaya Keller Khan Kim Kowalski Kumar Lambert Larsen Lefèvre Li Lindqvist López Marino Martin Mbeki Meyer Molina Moreau Mori Müller Murphy Mwangi Nakamura Navarro Nguyen Novák Nowak Nwosu O'Brien Okafor Olsen Ortega Patel Pereira Petrova Popescu Ramos Rao Reyes Ricci Rossi Roy Sato Schmidt Sharma Silva Singh Smith Sousa Suzuki Takahashi Tran Varga Vega Virtanen Wang Weber Wójcik Wu Yamada Yılmaz Zhang Zhou".split(
    " ",
  );
const DEPARTMENTS =
  "Engineering|Sales|Finance|Human Resources|Legal|Support|Marketing|Operations|Product|Research|Design|Logistics|IT|Ventas|Finanzas|Comptabilité|Ressources humaines|研发|市场部".split(
    "|",
  );
/** What people write: four languages, plurals, a slip here and there. */
const INTERESTS =
  "hiking|coffee|chess|cycling|board games|yoga|tea|cooking|photography|gardening|running|films|jazz|wine|baking|science fiction|knitting|travel|dogs|cats|video games|books|guitar|puzzles|camping|houseplants|astronomy|painting|football|woodworking|podcasts|swimming|drawing|golf|languages|senderismo|cocina|fútbol|música|ajedrez|jardinería|fotografía|lectura|vino|randonnée|cuisine|jardinage|lecture|échecs|jeux de société|vélo|徒步|咖啡|摄影|围棋|园艺|看书|茶|hikng|photograhy|gardning|choclate|bikes|dog walking|crosswords|birdwatching|sushi|chocolate|3D printing|origami|meditation|tennis|sewing|cheese".split(
    "|",
  );
const BUDGETS = "25,30,35,40,45,50,50,50,60,60,75,75,80,100,120,49.90,29.95,39.50,150,200".split(",");

/** The rows that are wrong on purpose, by their place within a block, counted from 1. */
const MISTAKES: ReadonlyMap<
  number,
  "twice" | "no_email" | "bad_email" | "bad_budget" | "unclear" | "unknown"
> = new Map([
  [137, "unknown"],
  [311, "twice"],
  [404, "no_email"],
  [512, "unknown"],
  [666, "bad_budget"],
  [777, "unknown"],
  [931, "unknown"],
  [1010, "bad_email"],
  [1111, "unclear"],
  [1234, "unknown"],
  [1404, "no_email"],
  [1555, "unknown"],
  [1717, "twice"],
  [1902, "unknown"],
]);
const NOBODY_KNOWS = ["zorbing", "quidditch", "extreme ironing", "competitive yodelling", "ferret legging"];

/** Gives the lines of a file with this many employees, the header first, each with its line break. */
export function* employeeLines(rows: number, seed = 20_251): Generator<string, void, undefined> {
  const draw = createDraw(seed);
  yield HEADER;
  let previous = "";
  for (let row = 1; row <= rows; row += 1) {
    const mistake = MISTAKES.get(((row - 1) % BLOCK) + 1);
    const first = draw(FIRST_NAMES);
    const last = draw(LAST_NAMES);
    const number = row.toString().padStart(6, "0");
    const address = `${plain(first)}.${plain(last)}.${row}@example.com`;
    const department = draw(DEPARTMENTS);
    const count = draw([0, 1, 1, 2, 2, 2, 3, 3, 4]);
    const interests = [...new Set(Array.from({ length: count }, () => draw(INTERESTS)))];
    let budget = draw(BUDGETS);
    let email = address;
    if (mistake === "twice") email = previous.toUpperCase();
    if (mistake === "no_email") email = "";
    if (mistake === "bad_email") email = address.replace("@", " at ");
    if (mistake === "bad_budget") budget = "-50";
    if (mistake === "unclear") budget = '"1,250"';
    if (mistake === "unknown") interests.push(draw(NOBODY_KNOWS));
    const joined = interests.join(draw(["|", "|", "|", ";", ", "]));
    const cell = joined.includes(",") ? `"${joined}"` : joined;
    yield `E-${number},${first} ${last},${email},${department},${cell},${budget}\n`;
    previous = address;
  }
}

/** An address keeps the letters that every mail system takes. */
function plain(name: string): string {
  return name
    .normalize("NFKD")
    .replaceAll("ł", "l")
    .replaceAll("Ł", "L")
    .replaceAll("ø", "o")
    .replaceAll("ı", "i")
    .replace(/[^a-z]/gi, "")
    .toLowerCase();
}

/** Draws from lists by a small generator (mulberry32): the same seed, the same file on every machine. */
function createDraw(seed: number): <T>(list: readonly T[]) => T {
  let state = seed >>> 0;
  return (list) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    const index = Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000) * list.length);
    return list[index]!;
  };
}

async function write(rows: number, path: string): Promise<void> {
  const file = createWriteStream(path);
  let piece = "";
  for (const line of employeeLines(rows)) {
    piece += line;
    if (piece.length < 65_536) continue;
    if (!file.write(piece)) await once(file, "drain");
    piece = "";
  }
  file.end(piece);
  await once(file, "finish");
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const option = (name: string): string | undefined => {
    const at = process.argv.indexOf(`--${name}`);
    return at < 0 ? undefined : process.argv[at + 1];
  };
  const rows = Number(option("rows") ?? BLOCK);
  const out = option("out");
  if (!Number.isSafeInteger(rows) || rows < 0 || out === undefined) {
    process.stderr.write("Give a number of rows and a file: --rows 2000 --out employees.csv\n");
    process.exitCode = 1;
  } else {
    await write(rows, out);
  }
}
