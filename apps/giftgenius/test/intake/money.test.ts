import { describe, expect, it } from "vitest";
import { hasWholeUnits, parseMoneyCents } from "../../src/intake/money.ts";

describe("amounts as people type them", () => {
  it.each([
    ["50", 5000],
    ["49.90", 4990],
    ["49,9", 4990],
    [".50", 50],
    ["50.", 5000],
    ["75.50", 7550],
    ["1,234.56", 123456],
    ["1.234,56", 123456],
    ["1 234,56", 123456],
    ["1\u00A0234,56", 123456],
    ["1\u202F234,56 €", 123456],
    ["1'234.50", 123450],
    ["1’234.50", 123450],
    ["1.234.567", 123456700],
    ["12,34,567.00", 123456700],
    ["1234.567", 123456],
    ["0.505", 50],
    ["14.285714", 1428],
    ["$50", 5000],
    ["US$ 50", 5000],
    ["50 USD", 5000],
    ["EUR50", 5000],
    ["50 euros", 5000],
    ["CHF 50.-", 5000],
    ["50,--", 5000],
    ["+50", 5000],
    ["¥5000", 500000],
    ["100元", 10000],
    ["１２０", 12000],
    ["￥１２０", 12000],
    ["  60  ", 6000],
  ])("%j is %d hundredths", (text, cents) => {
    expect(parseMoneyCents(text)).toMatchObject({ kind: "amount", cents, unclear: false });
  });

  it.each([
    ["1,250", 125000],
    ["1.250", 125000],
    ["12.345", 1234500],
  ])("%j is read as thousands and said to be unclear", (text, cents) => {
    expect(parseMoneyCents(text)).toMatchObject({ kind: "amount", cents, unclear: true });
  });

  it.each(["", "  ", "\u00A0"])("%j is empty", (text) => {
    expect(parseMoneyCents(text)).toEqual({ kind: "empty" });
  });

  it.each(["0", "0.00", "-50", "−50", "50-", "(50)", "0.004", "$-50", "-$50"])(
    "%j is not positive",
    (text) => {
      expect(parseMoneyCents(text)).toEqual({ kind: "not_positive" });
    },
  );

  it.each([
    "fifty",
    "50-60",
    "~50",
    "5k",
    "50%",
    "1e3",
    "12,34,56",
    "1,2345,678",
    "1.2.3",
    "50 60",
    "1.234 567",
    "1,234.567,89",
    "--50",
    "50²",
    "½",
    "€50 USD",
    "0x50",
    "NaN",
    "Infinity",
    "9".repeat(100),
  ])("%j is not one amount", (text) => {
    expect(parseMoneyCents(text)).toEqual({ kind: "unreadable" });
  });

  it.each(["10000000.01", "999999999999999999"])("%j is too large", (text) => {
    expect(parseMoneyCents(text)).toEqual({ kind: "too_large" });
  });

  it("a mark or code says which currencies it can mean", () => {
    expect(parseMoneyCents("€50")).toMatchObject({ currencies: ["EUR"] });
    expect(parseMoneyCents("50 chf")).toMatchObject({ currencies: ["CHF"] });
    expect(parseMoneyCents("50 SEK")).toMatchObject({ currencies: ["SEK"] });
    expect(parseMoneyCents("$50 CAD")).toMatchObject({ currencies: ["CAD"] });
    expect(parseMoneyCents("50")).not.toHaveProperty("currencies");
  });
});

it("currencies without hundredths are known", () => {
  expect([hasWholeUnits("JPY"), hasWholeUnits("USD"), hasWholeUnits("nonsense")]).toEqual([
    true,
    false,
    false,
  ]);
});
