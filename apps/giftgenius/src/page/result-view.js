/** The list of gifts: totals, the table with its filters, and what could not be used. */
import { count, el, errorNotice, money, number, part, write } from "./element.js";

/** Rows on the page with what the filters look at. */
let rows = [];

/** Shows a result from its first page on. */
export function showResult(result) {
  rows = [];
  part("result").hidden = false;
  part("rows").replaceChildren();
  part("result-error").replaceChildren();
  part("search").value = "";
  const { totals, counts, currency } = result;
  write(
    part("result-title"),
    totals.employees === 0
      ? "Nobody to give to"
      : `Gift ideas for ${count(totals.employees, "person", "people")}`,
  );
  part("facts").replaceChildren(
    ...fact("Ideas", number(totals.gifts)),
    ...fact("First choices together", money(totals.firstChoiceCents, currency)),
    ...fact("Rows read", number(counts.total)),
    ...fact("Rows left out", number(counts.rejected)),
  );
  part("people").hidden = totals.employees === 0;
  part("filters").hidden = totals.employees === 0;
  showNotes(result);
  addRows(result, result.recommendations);
}

export function hideResult() {
  rows = [];
  part("result").hidden = true;
  part("rows").replaceChildren();
}

/** Says that the list, or more of it, could not be read. */
export function showResultError(error, onAgain) {
  part("result").hidden = false;
  part("result-error").replaceChildren(
    errorNotice(error, el("button", { type: "button", click: onAgain }, "Read it again")),
  );
}

/** Adds people below those that are shown; the same person is never shown twice. */
export function addRows(result, recommendations) {
  const known = new Set(rows.map(({ key }) => key));
  for (const person of recommendations) {
    const key = String(person.email);
    if (known.has(key)) continue;
    known.add(key);
    const row = personRow(person, result.currency);
    rows.push({ key, row, department: String(person.department ?? ""), text: row.textContent.toLowerCase() });
    part("rows").append(row);
  }
  const departments = [...new Set(rows.map(({ department }) => department))]
    .filter((name) => name !== "")
    .sort((a, b) => a.localeCompare(b));
  const chosen = part("department").value;
  part("department").replaceChildren(
    el("option", { value: "" }, "All departments"),
    ...departments.map((name) => el("option", { value: name }, name)),
  );
  part("department").value = departments.includes(chosen) ? chosen : "";
  part("more").hidden = result.nextCursor === undefined;
  part("more").disabled = false;
  filterRows(result);
}

/** Hides the loaded rows that the filters leave out. */
export function filterRows(result) {
  const wanted = part("search").value.trim().toLowerCase();
  const department = part("department").value;
  let shown = 0;
  for (const entry of rows) {
    const fits = (department === "" || entry.department === department) && entry.text.includes(wanted);
    entry.row.hidden = !fits;
    if (fits) shown += 1;
  }
  const all = `${number(rows.length)} of ${number(result.totals.employees)} people loaded`;
  const filtered = wanted !== "" || department !== "";
  write(part("shown"), filtered ? `${count(shown, "match", "matches")} among ${all}` : all);
}

function fact(name, value) {
  return [el("div", {}, el("dt", {}, name), el("dd", {}, value))];
}

function personRow({ fullName, email, department, budgetCents, gifts }, currency) {
  return el(
    "tr",
    {},
    el(
      "th",
      { scope: "row" },
      el("strong", { dir: "auto" }, fullName || email),
      el("span", { class: "email" }, fullName ? email : ""),
      department && el("span", { class: "tag", dir: "auto" }, department),
    ),
    el("td", { class: "number" }, money(budgetCents, currency)),
    el(
      "td",
      {},
      gifts.length === 0
        ? el("p", { class: "none" }, "Nothing in the catalogue fits this budget.")
        : el(
            "ol",
            { class: "gifts" },
            gifts.map((gift) => giftItem(gift, currency)),
          ),
    ),
  );
}

function giftItem({ title, priceCents, category, reason }, currency) {
  return el(
    "li",
    {},
    el(
      "div",
      { class: "gift" },
      el("span", { class: "title", dir: "auto" }, title),
      el("span", { class: "price" }, money(priceCents, currency)),
    ),
    el("p", { class: "why", dir: "auto" }, el("span", { class: "category" }, category), " · ", reason),
  );
}

function showNotes({ counts, rejected, warnings }) {
  const notes = part("row-notes");
  notes.hidden = counts.rejected + counts.warnings === 0;
  const texts = [];
  if (counts.rejected > 0) texts.push(`${count(counts.rejected, "row was", "rows were")} left out`);
  if (counts.warnings > 0) texts.push(`${count(counts.warnings, "remark", "remarks")} on other rows`);
  write(part("row-notes-title"), texts.join(", "));
  part("row-notes-body").replaceChildren(
    ...noteTable("Left out", rejected, counts.rejected),
    ...noteTable("Remarks", warnings, counts.warnings),
  );
}

function noteTable(title, notes, total) {
  if (notes.length === 0) return [];
  return [
    el("h3", {}, title),
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      el(
        "table",
        {},
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ["Row", "Line", "What", "Code"].map((name) => el("th", { scope: "col" }, name)),
          ),
        ),
        el(
          "tbody",
          {},
          notes.map(({ record, line, code, message }) =>
            el(
              "tr",
              {},
              el("td", {}, number(record)),
              el("td", {}, number(line)),
              el("td", { dir: "auto" }, message),
              el("td", {}, el("code", {}, code)),
            ),
          ),
        ),
      ),
    ),
    total > notes.length &&
      el("p", { class: "help" }, `The first ${number(notes.length)} of ${number(total)}.`),
  ].filter(Boolean);
}
