/** How benchmarks tell what they measured: JSON lines as they come, and one table at the end. */

/** What a figure must reach. */
export interface Gate {
  readonly atLeast?: number;
  readonly atMost?: number;
}

export type Report = (name: string, metric: string, value: number, unit: string, gate?: Gate) => void;

interface Figure {
  readonly name: string;
  readonly metric: string;
  readonly value: number;
  readonly unit: string;
  readonly gate: Gate;
}

export interface Reporter {
  readonly report: Report;
  /** Prints the table on stderr. Returns how many figures miss their gate. */
  finish(): number;
}

export function createReporter(): Reporter {
  const figures: Figure[] = [];
  return {
    report(name, metric, exact, unit, gate = {}) {
      const value = Number(exact.toPrecision(4));
      figures.push({ name, metric, value, unit, gate });
      process.stdout.write(`${JSON.stringify({ name, metric, value, unit, ...gate })}\n`);
    },
    finish() {
      const rows = figures.map((figure) => [
        figure.name,
        figure.metric,
        `${figure.value} ${figure.unit === "ratio" ? "×" : figure.unit}`,
        reach(figure),
      ]);
      const widths = [0, 1, 2].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
      for (const row of rows) {
        const cells = row.map((cell, column) => cell.padEnd(widths[column] ?? 0));
        process.stderr.write(`${cells.join("  ").trimEnd()}\n`);
      }
      return figures.filter((figure) => !isReached(figure)).length;
    },
  };
}

function isReached({ value, gate: { atLeast = -Infinity, atMost = Infinity } }: Figure): boolean {
  return value >= atLeast && value <= atMost;
}

function reach(figure: Figure): string {
  const { atLeast, atMost } = figure.gate;
  if (atLeast === undefined && atMost === undefined) return "";
  const wanted = atLeast === undefined ? `≤ ${atMost}` : `≥ ${atLeast}`;
  return `${isReached(figure) ? "reached" : "MISSED"} (${wanted})`;
}

export function median(values: readonly number[]): number {
  return percentile(values, 50);
}

/** The smallest value that `percent` of all values do not exceed. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)];
  if (value === undefined) throw new Error("Nothing was measured.");
  return value;
}
