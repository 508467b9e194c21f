/** Prints a job's events: a moving bar in a terminal, one line an event elsewhere. */
import type { TidingsEvent } from "tidings";

const WIDTH = 28;

export interface ProgressBar {
  show(event: TidingsEvent): void;
  note(line: string): void;
}

export function createProgressBar(out: NodeJS.WriteStream): ProgressBar {
  let open = false;
  const line = (text: string): void => {
    if (open) out.write("\r\x1b[2K");
    open = false;
    out.write(`${text}\n`);
  };
  return {
    note: line,
    show(event) {
      const at = event.timestamp.slice(11, 23);
      const head = `${at}  #${String(event.seq ?? "").padEnd(4)} ${event.type.padEnd(16)}`;
      if (!isProgress(event)) return line(`${head} ${describe(event)}`);
      const filled = Math.round((event.percentage / 100) * WIDTH);
      const bar = `${"█".repeat(filled)}${"░".repeat(WIDTH - filled)}`;
      const eta = event.etaSeconds === undefined ? "" : `, ${event.etaSeconds} s left`;
      const text = `${head} ${bar} ${String(event.percentage).padStart(5)} %  ${event.stage}${eta}`;
      if (!out.isTTY) return line(text);
      out.write(`\r\x1b[2K${text.slice(0, (out.columns ?? 120) - 1)}`);
      open = true;
    },
  };
}

function isProgress(event: TidingsEvent): event is Extract<TidingsEvent, { type: "job.progress" }> {
  return event.type === "job.progress";
}

function describe(event: TidingsEvent): string {
  const { summary, error, message, reason } = event as {
    summary?: string;
    error?: { code: string; message: string; hint?: string };
    message?: string;
    reason?: string;
  };
  if (error !== undefined)
    return `${error.code}: ${error.message}${error.hint === undefined ? "" : ` ${error.hint}`}`;
  return summary ?? message ?? reason ?? "";
}
