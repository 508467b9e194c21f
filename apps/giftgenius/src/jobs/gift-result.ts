/** The shape of what a bulk analysis leaves behind, and where it stands. */
import type { Remark } from "../intake/judge-row.ts";

/** The collection that holds one recommendation per accepted employee, in the order of the file. */
export const RECOMMENDATIONS = "recommendations";

/** The collection that holds the texts of the catalogue that a job was begun with. */
export const CATALOGUE = "catalogue";

export function giftsUri(jobId: string): string {
  return `resource:gifts:${jobId}`;
}

export interface Gift {
  readonly sku: string;
  readonly title: string;
  /** In the run's currency. */
  readonly priceCents: number;
  readonly category: string;
  /** Which interest it answers, in the run's language. */
  readonly reason: string;
}

export interface Recommendation {
  readonly employeeId: string;
  readonly email: string;
  readonly fullName: string;
  readonly department: string;
  readonly budgetCents: number;
  /** Alternatives, the best first; each costs at most the budget. */
  readonly gifts: readonly Gift[];
}

/** Something to say about one row of the file. */
export interface RowNote extends Remark {
  /** 1-based, without blank rows. */
  readonly record: number;
  /** 1-based line of the file on which the record starts. */
  readonly line: number;
}

export interface Counts {
  readonly total: number;
  readonly accepted: number;
  readonly rejected: number;
  readonly warnings: number;
}

/** Everything of a result but the recommendations themselves, which are read by page. */
export interface ResultSummary {
  readonly currency: string;
  readonly counts: Counts;
  readonly totals: { readonly employees: number; readonly gifts: number; readonly firstChoiceCents: number };
  /** The first 1,000; `counts` has the total. */
  readonly warnings: readonly RowNote[];
  /** The first 1,000; `counts` has the total. */
  readonly rejected: readonly RowNote[];
}
