/** The first rows of a result, and its totals. */
import type { Client } from "@modelcontextprotocol/client";
import type { Recommendation, ResultSummary } from "../jobs/gift-result.ts";
import { giftsUri } from "../jobs/gift-result.ts";

const ROWS = 12;

export async function printRecommendations(
  client: Client,
  jobId: string,
  print: (line: string) => void,
): Promise<void> {
  const { contents } = await client.readResource({ uri: giftsUri(jobId) });
  const [content] = contents;
  const text = content !== undefined && "text" in content ? content.text : "{}";
  const result = JSON.parse(String(text)) as ResultSummary & { recommendations: readonly Recommendation[] };
  const { counts, totals, currency } = result;
  print(cells("employee", "department", "budget", "first gift", "price", "why"));
  print(cells("-".repeat(22), "-".repeat(16), "-".repeat(9), "-".repeat(44), "-".repeat(9), "-".repeat(30)));
  for (const { fullName, department, budgetCents, gifts } of result.recommendations.slice(0, ROWS)) {
    const [first] = gifts;
    print(
      cells(
        fullName,
        department,
        money(budgetCents, currency),
        first?.title ?? "(nothing within the budget)",
        first === undefined ? "" : money(first.priceCents, currency),
        first?.reason ?? "",
      ),
    );
  }
  print(`… and ${Math.max(0, totals.employees - ROWS)} more.\n`);
  print(
    `${counts.total} records: ${counts.accepted} accepted, ${counts.rejected} rejected, ${counts.warnings} warnings; ` +
      `${totals.gifts} gifts, first choices together ${money(totals.firstChoiceCents, currency)}.`,
  );
}

function money(cents: number, currency: string): string {
  return new Intl.NumberFormat("en", { style: "currency", currency }).format(cents / 100);
}

function cells(
  name: string,
  department: string,
  budget: string,
  gift: string,
  price: string,
  why: string,
): string {
  return [
    cell(name, 22),
    cell(department, 16),
    budget.padStart(9),
    cell(gift, 44),
    price.padStart(9),
    why,
  ].join("  ");
}

function cell(text: string, width: number): string {
  return (text.length > width ? `${text.slice(0, width - 1)}…` : text).padEnd(width);
}
