/** Texts from outside as columns hold them. */

/**
 * The text itself, or its JSON when SQLite's UTF-8 could not give it back exactly: NUL, lone surrogates. No two texts
 * become the same column.
 */
export function toColumn(text: string): string {
  return text.startsWith('"') || text.includes("\0") || !text.isWellFormed() ? JSON.stringify(text) : text;
}

export function toOptionalColumn(text: string | undefined): string | null {
  return text === undefined ? null : toColumn(text);
}

export function fromColumn(column: string): string {
  return column.startsWith('"') ? (JSON.parse(column) as string) : column;
}
