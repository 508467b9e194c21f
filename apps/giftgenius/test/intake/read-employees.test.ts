import { describe, expect, it } from "vitest";
import type { IntakeRecord } from "../../src/intake/read-employees.ts";
import { MAX_RECORD, readEmployees } from "../../src/intake/read-employees.ts";
import { acceptedOf, fixture, read, rejectedOf, sourceOf } from "./read-source.ts";

const HEADER = "employee_id,full_name,email,department,interests,budget\n";

interface Verdict {
  outcome: string;
  dataRecords?: number;
  accepted?: number;
  spot?: { record: number; field: string; value: string }[];
  never?: string[];
  budgetCents?: number[];
  startLines?: number[];
}
const { files } = JSON.parse(fixture("expected.json").toString()) as { files: Record<string, Verdict> };

/** Files for which the verdict leaves the choice, and what we chose. */
const REFUSED: Readonly<Record<string, string>> = {
  "c02c_utf16le_no_bom.csv": "UNKNOWN_ENCODING",
  "c03a_windows1252.csv": "UNKNOWN_ENCODING",
  "c07a_unclosed_quote.csv": "UNCLOSED_QUOTE",
  "c11a_zero_bytes.csv": "EMPTY_FILE",
  "c11b_header_only.csv": "NO_EMPLOYEES",
  "c11c_bom_only.csv": "EMPTY_FILE",
};

/** A field as the file has it; interests are joined again. */
function fieldOf(record: IntakeRecord | undefined, field: string): string | undefined {
  if (record?.outcome !== "accepted") return undefined;
  const { employee } = record;
  const fields: Record<string, string> = {
    employee_id: employee.employeeId,
    full_name: employee.fullName,
    email: employee.email,
    department: employee.department,
    interests: employee.interests.join("|"),
    budget: String(employee.budgetCents / 100),
  };
  return fields[field];
}

describe("the files people send", () => {
  for (const [name, verdict] of Object.entries(files)) {
    const refusal = REFUSED[name];
    if (refusal !== undefined) {
      it(`${name}: refused with ${refusal} and a hint`, async () => {
        expect(["fail", "ok or fail", "fail or partial"]).toContain(verdict.outcome);
        await expect(read(fixture(name))).rejects.toMatchObject({ code: refusal, hint: expect.any(String) });
      });
      continue;
    }
    it(`${name}: read as the verdict says`, async () => {
      const records = await read(fixture(name));
      expect(records).toHaveLength(verdict.dataRecords ?? Number.NaN);
      if (verdict.accepted !== undefined) expect(acceptedOf(records)).toHaveLength(verdict.accepted);
      for (const { record, field, value } of verdict.spot ?? []) {
        // A list keeps its items, not the sign between them.
        const wanted = field === "interests" ? value.replaceAll(/, */g, "|") : value;
        expect(fieldOf(records[record - 1], field)).toBe(wanted);
      }
      if (verdict.startLines) expect(records.map(({ line }) => line)).toEqual(verdict.startLines);
      if (verdict.budgetCents) {
        expect(acceptedOf(records).map(({ employee }) => employee.budgetCents)).toEqual(verdict.budgetCents);
      }
      for (const text of verdict.never ?? []) {
        if (text.length > 1 && !text.startsWith('"')) continue;
        expect(
          acceptedOf(records)
            .flatMap(({ employee }) => Object.values(employee))
            .join("\n"),
        ).not.toContain(text);
      }
    });
  }

  it("one bad byte costs its own row and leaves the names beside it whole", async () => {
    const records = await read(fixture("c03c_utf8_with_one_bad_byte.csv"));
    expect(rejectedOf(records)).toMatchObject([{ record: 2, line: 3, code: "BAD_ENCODING" }]);
    expect(acceptedOf(records).map(({ employee }) => employee.fullName)).toEqual([
      "Łucja Wróbel",
      "Nia Owen",
    ]);
  });

  it("rows of another width are rejected with their lines, extra empty fields are not", async () => {
    const records = await read(fixture("c09_ragged_rows.csv"));
    expect(rejectedOf(records).map(({ record, line, code }) => [record, line, code])).toEqual([
      [2, 3, "WRONG_FIELD_COUNT"],
      [3, 4, "WRONG_FIELD_COUNT"],
      [5, 6, "WRONG_FIELD_COUNT"],
    ]);
  });

  it("a quote that never closes is named by the line of its record", async () => {
    const before: number[] = [];
    const reading = async () => {
      const source = sourceOf(fixture("c07a_unclosed_quote.csv"));
      for await (const { record } of readEmployees(source, { currency: "USD" })) before.push(record);
    };
    await expect(reading()).rejects.toThrow(/column 2 of the record that starts on line 3/);
    expect(before).toEqual([1]);
  });

  it("cut at any byte, the stream says the same", async () => {
    const content = fixture("c06_embedded_newlines.csv");
    const whole = await read(content);
    for (let at = 0; at <= content.length; at += 1) {
      const cut = await read(sourceOf(content.subarray(0, at), content.subarray(at)));
      expect(cut).toEqual(whole);
    }
    expect(await read(sourceOf(...[...content].map((byte) => Uint8Array.of(byte))))).toEqual(whole);
  });

  it("UTF-16 cut at any byte says the same, in both byte orders", async () => {
    const littleEndian = fixture("c02a_utf16le_bom_tab.csv");
    const whole = (await read(littleEndian)).map(({ bytesRead: _, ...record }) => record);
    for (const content of [littleEndian, Buffer.from(littleEndian).swap16()]) {
      for (let at = 0; at <= content.length; at += 7) {
        const cut = await read(sourceOf(content.subarray(0, at), content.subarray(at)));
        expect(cut.map(({ bytesRead: _, ...record }) => record)).toEqual(whole);
      }
    }
  });
});

describe("columns", () => {
  it("are found by name, in any order and case, and others are ignored", async () => {
    const records = await read("Notes, BUDGET ,E-mail,Full Name,EMAIL\nx,50,y,Ada Blom,ada@example.com\n");
    expect(acceptedOf(records)[0]?.employee).toEqual({
      employeeId: "",
      fullName: "Ada Blom",
      email: "ada@example.com",
      department: "",
      interests: [],
      budgetCents: 5000,
    });
  });

  it("without an address column the file is refused, and the message repeats nothing of it", async () => {
    const refusal = read("E-1,Ada Blom,ada@example.com,Sales,tea,50\n");
    await expect(refusal).rejects.toMatchObject({
      code: "NO_EMAIL_COLUMN",
      hint: expect.stringContaining("employee_id, full_name, email"),
    });
    await expect(refusal).rejects.not.toThrow(/Ada|example/);
    await expect(read("name,mail\nAda,ada@example.com\n")).rejects.toMatchObject({
      code: "NO_EMAIL_COLUMN",
      hint: expect.stringContaining("Add a column named email"),
    });
  });

  it("two of one name are refused with both positions", async () => {
    await expect(read("email,budget,Email \na@example.com,5,b@example.com\n")).rejects.toThrow(
      "Columns 1 and 3 are both named email.",
    );
  });

  it("named like parts of JavaScript objects are columns like any other", async () => {
    const records = await read("__proto__,constructor,email,budget\na,b,ada@example.com,50\n");
    expect(acceptedOf(records)).toHaveLength(1);
    expect(({} as Record<string, unknown>).a).toBeUndefined();
  });

  it("more than 200 are refused with the limit", async () => {
    await expect(read(`email,${"x,".repeat(300)}\n`)).rejects.toThrow(/200 columns/);
  });

  it("without budgets and without a default budget nothing is started", async () => {
    const content = "email\nada@example.com\n";
    await expect(read(content)).rejects.toMatchObject({ code: "NO_BUDGET_COLUMN" });
    expect(acceptedOf(await read(content, { defaultBudgetCents: 4990 }))[0]?.employee.budgetCents).toBe(4990);
  });

  it.each([";", "\t"])("divided by %j are found by the header alone", async (delimiter) => {
    const rows = [
      ["email", "budget", "interests"],
      ["ada@example.com", "1.234,56 €", "tea, chess, golf"],
    ];
    const content = rows.map((row) => row.join(delimiter)).join("\n");
    const records = await read(content, { currency: "EUR" });
    expect(acceptedOf(records)[0]?.employee.budgetCents).toBe(123_456);
  });

  it("a spreadsheet's own line about the delimiter is obeyed and not counted as a record", async () => {
    const records = await read("sep=;\r\nemail;budget\r\nada@example.com;49,90\r\n");
    expect(records).toMatchObject([{ record: 1, line: 3, employee: { budgetCents: 4990 } }]);
  });
});

describe("records", () => {
  it("are counted without blank and delimiter-only lines, lines with them", async () => {
    const records = await read("\n,,\nemail,budget,x\n\na@example.com,1,\n , ,\n\r\nb@example.com,2,");
    expect(records.map(({ record, line }) => [record, line])).toEqual([
      [1, 5],
      [2, 8],
    ]);
  });

  it("say how far the file was read, to the last byte", async () => {
    const content = `\uFEFF${HEADER}E-1,Zoë,zoe@example.com,,,5\nE-2,Bo,bo@example.com,,,5`;
    const records = await read(content);
    expect(records.map(({ bytesRead }) => bytesRead)).toEqual([
      Buffer.byteLength(content.slice(0, content.indexOf("E-2"))),
      Buffer.byteLength(content),
    ]);
  });

  it("of one person twice: the first counts, however the address is written", async () => {
    const records = await read("email,budget\nAda@Example.com,5\n ada@example.COM ,5\nbo@example.com,5\n");
    expect(rejectedOf(records)).toMatchObject([{ record: 2, line: 3, code: "DUPLICATE_PERSON" }]);
  });

  it("of a person whose first row was refused: the second counts", async () => {
    const records = await read("email,budget\nada@example.com,-1\nada@example.com,5\n");
    expect(records.map(({ outcome }) => outcome)).toEqual(["rejected", "accepted"]);
  });

  it.each([
    ["", "NO_EMAIL"],
    ["ada", "BAD_EMAIL"],
    ["ada@example", "BAD_EMAIL"],
    ["ada@b@example.com", "BAD_EMAIL"],
    ["ada\u202E@example.com", "BAD_EMAIL"],
    ["<ada@example.com>", "BAD_EMAIL"],
    ["ada@exam ple.com", "BAD_EMAIL"],
    [`${"a".repeat(250)}@example.com`, "BAD_EMAIL"],
  ])("with the address %j are rejected with %s", async (email, code) => {
    expect(await read(`email,budget\n${email},5\n`)).toMatchObject([{ outcome: "rejected", code }]);
  });

  it.each(["o'brien+gifts@example.co.uk", "zoë.müller@example.com", "用户@例子.中国"])(
    "with the address %s are accepted",
    async (email) => {
      expect(acceptedOf(await read(`email,budget\n${email},5\n`))[0]?.employee.email).toBe(email);
    },
  );

  it("with NUL are rejected, their neighbours are not", async () => {
    const records = await read(
      `${HEADER}1,A,a@example.com,,,5\n2,B\0,b@example.com,,,5\n3,C,c@example.com,,,5\n`,
    );
    expect(records.map((record) => (record.outcome === "rejected" ? record.code : "ok"))).toEqual([
      "ok",
      "BAD_TEXT",
      "ok",
    ]);
  });

  it("with a cell above the limit are rejected with the limit, their neighbours are not", async () => {
    const records = await read(
      `${HEADER}1,A,a@example.com,,,5\n2,B,b@example.com,,${"x".repeat(70_000)},5\n3,C,c@example.com,,,5\n`,
    );
    expect(rejectedOf(records)).toMatchObject([{ record: 2, code: "CELL_TOO_LONG" }]);
    expect(rejectedOf(records)[0]?.message).toContain("65536");
    expect(acceptedOf(records)).toHaveLength(2);
  });

  it("with thousands of delimiters cost no memory and no neighbour", async () => {
    const records = await read(`${HEADER}${",".repeat(100_000)}x\n3,C,c@example.com,,,5\n`);
    expect(records).toMatchObject([{ code: "CELL_TOO_LONG" }, { outcome: "accepted" }]);
  });

  it("keep the text of cells: breaks, tabs, formulas and zeros in front are not touched", async () => {
    const records = await read(`${HEADER}007,"\t=1+1\r\nB",a@example.com, R&D ,,5\n`);
    expect(acceptedOf(records)[0]?.employee).toMatchObject({
      employeeId: "007",
      fullName: "\t=1+1\r\nB",
      department: "R&D",
    });
  });

  it("list interests by several signs, each once, at most 50", async () => {
    const cell = `"tea| Tea ;chess, ${Array.from({ length: 60 }, (_, i) => `x${i}`).join("、")}"`;
    const [record] = acceptedOf(await read(`email,budget,interests\na@example.com,5,${cell}\n`));
    expect(record?.employee.interests.slice(0, 3)).toEqual(["tea", "chess", "x0"]);
    expect(record?.employee.interests).toHaveLength(50);
    expect(record?.warnings).toMatchObject([{ code: "TOO_MANY_INTERESTS" }]);
  });
});

describe("quotes", () => {
  it("that swallow whole rows and close by accident are rejected, not taken for a person", async () => {
    const records = await read(
      `${HEADER}1,"Vic,vic@example.com,IT,chess,50\n2,"Wes, v,wes@example.com,IT,golf,50\n3,Xia,x@example.com,,,5\n`,
    );
    expect(rejectedOf(records)).toMatchObject([{ line: 2 }]);
    expect(acceptedOf(records).map(({ employee, line }) => [employee.employeeId, line])).toEqual([["3", 4]]);
    const same = await read(`${HEADER}1,Vic,v@example.com,IT,"12 vinyl,50\n2,Wes,w@example.com,IT,12",50\n`);
    expect(same).toMatchObject([{ code: "BAD_QUOTES", record: 1, line: 2 }]);
  });

  it("that never close in a large file end the reading at the limit of a record", async () => {
    let taken = 0;
    async function* endless(): AsyncGenerator<Uint8Array> {
      yield Buffer.from(`${HEADER}1,"open`);
      for (;;) {
        taken += 65_536;
        yield Buffer.alloc(65_536, "x,y\n");
      }
    }
    await expect(read(endless())).rejects.toMatchObject({
      code: "RECORD_TOO_LONG",
      message: expect.stringContaining("line 2"),
    });
    expect(taken).toBeLessThan(2 * MAX_RECORD);
  });
});

describe("budgets", () => {
  const budget = (text: string, defaultBudgetCents?: number) =>
    read(`email,budget\nada@example.com,"${text}"\n`, {
      currency: "EUR",
      ...(defaultBudgetCents === undefined ? {} : { defaultBudgetCents }),
    });

  it("left empty take the default, or are rejected when there is none", async () => {
    expect(await budget("", 3000)).toMatchObject([{ employee: { budgetCents: 3000 }, warnings: [] }]);
    expect(await budget("")).toMatchObject([{ code: "NO_BUDGET" }]);
  });

  it.each(["fifty", "50-60", "$50", "ca. 50"])("%s: unclear takes the default and says so", async (text) => {
    expect(await budget(text, 3000)).toMatchObject([
      { employee: { budgetCents: 3000 }, warnings: [{ code: "DEFAULT_BUDGET_USED" }] },
    ]);
    expect(await budget(text)).toMatchObject([{ outcome: "rejected", code: "BAD_BUDGET" }]);
  });

  it.each(["0", "-5", "(50)", "99999999999"])("%s: rejected even with a default", async (text) => {
    expect(await budget(text, 3000)).toMatchObject([{ outcome: "rejected", code: "BAD_BUDGET" }]);
  });

  it("with three digits behind one separator are read as thousands, with a warning", async () => {
    expect(await budget("1.250")).toMatchObject([
      { employee: { budgetCents: 125_000 }, warnings: [{ code: "BUDGET_UNCLEAR" }] },
    ]);
    expect(await read('email,budget\na@example.com,"¥5,000"\n', { currency: "JPY" })).toMatchObject([
      { employee: { budgetCents: 500_000 }, warnings: [] },
    ]);
  });
});

describe("files that are no tables", () => {
  it.each([
    ["PK\u0003\u0004…", "NOT_A_TEXT_FILE"],
    ["%PDF-1.7", "NOT_A_TEXT_FILE"],
    ["\n \r\n,,,\n", "EMPTY_FILE"],
    ["\uFEFF\uFEFF", "EMPTY_FILE"],
  ])("%j is refused with %s", async (content, code) => {
    await expect(read(content)).rejects.toMatchObject({ code, hint: expect.any(String), retryable: false });
  });

  it("a mark written twice leaves no trace", async () => {
    const records = await read("\uFEFF\uFEFFemail,budget\na@example.com,5\n");
    expect(acceptedOf(records)).toHaveLength(1);
  });
});

describe("the reading", () => {
  it("closes its source when the reader stops early, and when the file is refused", async () => {
    let closed = 0;
    async function* source(header: string): AsyncGenerator<Uint8Array> {
      try {
        yield Buffer.from(header);
        for (let i = 0; ; i += 1) yield Buffer.from(`p${i}@example.com,5\n`.repeat(1000));
      } finally {
        closed += 1;
      }
    }
    for await (const _ of readEmployees(source("email,budget\n"), { currency: "USD" })) break;
    await expect(read(source("name,budget\n"))).rejects.toMatchObject({ code: "NO_EMAIL_COLUMN" });
    expect(closed).toBe(2);
  });

  it("ends with the reason of its signal", async () => {
    const controller = new AbortController();
    const reason = new Error("The person changed their mind.");
    const reading = async () => {
      const options = { currency: "USD", signal: controller.signal };
      for await (const record of readEmployees(sourceOf("email,budget\na@b.co,5\nc@d.co,5\n"), options)) {
        if (record.record === 1) controller.abort(reason);
      }
    };
    await expect(reading()).rejects.toBe(reason);
  });

  it("passes on the error of its source", async () => {
    const fault = new Error("The disk is gone.");
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from(`email,budget\n${"x".repeat(70_000)},5\n`);
      throw fault;
    }
    await expect(read(broken())).rejects.toBe(fault);
  });
});
