/** Which files nobody needs any more. Another process may look at the same time: what has gone is no fault. */
import { stat } from "node:fs/promises";
import type { Tidings } from "tidings";
import { OWN } from "./own-values.ts";
import type { UploadFolder } from "./upload-folder.ts";

/** In an owner's values: what each of its upload ids stands for. */
export const GRANTS = "upload:";
/** A draft that has not grown for so long belongs to a process that is gone. */
const KEEP_PART_MS = 3_600_000;
/** Looked at in one sweep, of the jobs of one file and of the ids of one owner. */
const MOST = 10_000;

/** In the application's own values: the jobs that keep a file. */
export function usesOf(name: string): string {
  return `file/${name}/`;
}

interface Looking {
  readonly folder: UploadFolder;
  /** How long a file has to lie unused. */
  readonly idleMs: number;
  readonly now: () => number;
}

/** Removes what was not used for long and is not kept by a job. */
export async function removeOld(
  looking: Looking & { readonly isKept: (name: string) => Promise<boolean> },
): Promise<void> {
  for (const { name, kind } of await looking.folder.entries()) {
    await (kind === "draft"
      ? removeUnused({ ...looking, idleMs: KEEP_PART_MS }, name, async () => false)
      : removeUnused(looking, name, () => looking.isKept(name)));
  }
}

/** Removes files, given with their owners, that neither a job nor an id keeps and that were not used meanwhile. */
export async function removeAbandoned(
  looking: Looking & { readonly tidings: Tidings },
  files: ReadonlyMap<string, string>,
): Promise<void> {
  const { tidings, folder } = looking;
  for (const [name, owner] of files) {
    await removeUnused(looking, name, async () => {
      if (await keptByJob(tidings, name)) return true;
      const grants = await tidings.transaction(owner, (values) => values.list(GRANTS, MOST));
      return (
        grants.length === MOST ||
        grants.some(({ value }) => folder.nameOf(owner, (value as { sha256: string }).sha256) === name)
      );
    });
  }
}

async function removeUnused(
  { folder, idleMs, now }: Looking,
  name: string,
  isKept: () => Promise<boolean>,
): Promise<void> {
  const path = folder.pathOf(name);
  const isIdle = async () => ((await usedAt(path)) ?? Number.POSITIVE_INFINITY) < now() - idleMs;
  // Looked at again behind the question: whoever began to use it meanwhile has touched it.
  if ((await isIdle()) && !(await isKept()) && (await isIdle())) await folder.remove(name);
}

/** Whether a job of the file is kept; the others are forgotten. */
export async function keptByJob(tidings: Tidings, name: string): Promise<boolean> {
  const uses = await tidings.transaction(OWN, (values) => values.list(usesOf(name), MOST));
  const gone: string[] = [];
  for (const { key, value } of uses) {
    const { owner, jobId } = value as { readonly owner: string; readonly jobId: string };
    if ((await tidings.find(owner, jobId)) === undefined) gone.push(key);
  }
  if (gone.length > 0) {
    await tidings.transaction(OWN, async (values) => {
      for (const key of gone) await values.delete(key);
    });
  }
  return gone.length < uses.length || uses.length === MOST;
}

/** When a file was used last; undefined when it is gone. */
async function usedAt(path: string): Promise<number | undefined> {
  const file = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    return undefined;
  });
  return file?.mtimeMs;
}
