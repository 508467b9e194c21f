/**
 * Files that people hand over. The bytes lie in a folder, named by their digest; who may use them stands in the store.
 * A job refers to the digest, so a file that arrives twice is the same input twice.
 *
 *   POST /uploads ──▶ file ──▶ id, good for a day ──▶ job ──▶ ends ──▶ retried … ──▶ is no longer kept
 *                      └── kept for a day after its last use ───┴── kept as long as the job is ───┘ then it goes
 */
import { createHash, randomBytes } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Clock, Tidings } from "tidings";
import { PermanentError, TidingsError } from "tidings";
import { OWN } from "./own-values.ts";

export const MAX_UPLOAD_BYTES = 1024 ** 3;
/** A draft that has not grown for so long belongs to a process that is gone. */
const KEEP_PART_MS = 3_600_000;
const DAY_MS = 24 * 3_600_000;
const SWEEP_EVERY_MS = 3_600_000;
/** Looked at in one sweep, of the jobs of one file. */
const MOST_JOBS = 10_000;

const SYSTEM_CLOCK: Pick<Clock, "now" | "after"> = {
  now: () => Date.now(),
  after(ms, call) {
    const timer = setTimeout(call, ms).unref();
    return () => clearTimeout(timer);
  },
};

export interface Upload {
  readonly bytes: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
}

export interface Uploads {
  /**
   * Streams a file to disk.
   *
   * @throws TidingsError PAYLOAD_TOO_LARGE above 1 GB; nothing is kept then.
   */
  receive(source: AsyncIterable<Uint8Array>): Promise<Upload>;
  /** Gives an owner a name for a file, good for a day, or for as long as ended jobs are kept when that is shorter. */
  grant(owner: string, upload: Upload): Promise<string>;
  /** @throws TidingsError UPLOAD_NOT_FOUND, alike for unknown, foreign and expired ids. */
  find(owner: string, uploadId: string): Promise<Upload>;
  /** From now on the file stays for as long as the job is kept, which may be retried with it. */
  keepFor(owner: string, jobId: string, upload: Upload): Promise<void>;
  /** Reads a file as a stream. @throws PermanentError UPLOAD_NOT_FOUND when it is no longer kept. */
  open(upload: Upload): Promise<AsyncIterable<Uint8Array>>;
  /** Removes files that no job and no recent use keeps: now, and every hour. */
  beginSweeping(): void;
  close(): Promise<void>;
}

/**
 * Opens the folder.
 *
 * @param folder - Where to keep the files, in a folder that exists; undefined = a temporary folder that is removed at
 *   the end.
 * @param tidings - Asked for when it is needed: whose the files are, and which jobs are kept.
 * @param options - `retentionMs`: how long ended jobs are kept. `clock`: default the machine's.
 */
export async function openUploads(
  folder: string | undefined,
  tidings: () => Tidings,
  options: { readonly retentionMs: number; readonly clock?: Pick<Clock, "now" | "after"> },
): Promise<Uploads> {
  const { retentionMs, clock = SYSTEM_CLOCK } = options;
  /** A file that no job uses goes so long after it was used last. */
  const idleMs = Math.min(DAY_MS, retentionMs);
  const home = folder ?? (await mkdtemp(join(tmpdir(), "giftgenius-")));
  try {
    await mkdir(home).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
    await readdir(home);
  } catch (error) {
    throw new TidingsError(
      "UPLOADS_UNWRITABLE",
      `The folder for uploads, ${home}, cannot be used: ${(error as Error).message}.`,
      {
        hint: "Make the folder writable, or choose another place by TIDINGS_STORE.",
        cause: error,
      },
    );
  }
  const pathOf = ({ sha256 }: Upload): string => join(home, `${sha256}.csv`);
  const touch = (path: string): Promise<void> => {
    const now = new Date(clock.now());
    return utimes(path, now, now);
  };
  let closed = false;
  let sweeping: Promise<void> = Promise.resolve();
  let cancelSweep = () => {};
  const sweep = async (): Promise<void> => {
    await removeOld({ home, idleMs, now: clock.now, isKept: (sha256) => isKept(tidings(), sha256) }).catch(
      (error: Error) => {
        if (error instanceof TidingsError && error.code === "STORE_CLOSED") return;
        const { message } = error;
        process.stderr.write(
          `${JSON.stringify({ level: "warn", during: "removing old uploads", message })}\n`,
        );
      },
    );
    if (!closed) cancelSweep = clock.after(SWEEP_EVERY_MS, beginSweeping);
  };
  const beginSweeping = (): void => {
    sweeping = sweep();
  };

  const receiving = new Set<Promise<Upload>>();
  const receive = async (source: AsyncIterable<Uint8Array>): Promise<Upload> => {
    const draft = join(home, `${randomBytes(16).toString("hex")}.part`);
    const hash = createHash("sha256");
    let bytes = 0;
    try {
      await pipeline(
        source,
        async function* measure(chunks: AsyncIterable<Uint8Array>) {
          for await (const chunk of chunks) {
            bytes += chunk.length;
            if (bytes > MAX_UPLOAD_BYTES) throw tooLarge();
            hash.update(chunk);
            yield chunk;
          }
        },
        createWriteStream(draft, { flags: "wx" }),
      );
      const upload = { bytes, sha256: hash.digest("hex") };
      await rename(draft, pathOf(upload));
      return upload;
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
  };

  return {
    receive(source) {
      const upload = receive(source).finally(() => receiving.delete(upload));
      receiving.add(upload);
      return upload;
    },

    async grant(owner, { bytes, sha256 }) {
      const uploadId = `upl_${randomBytes(18).toString("base64url")}`;
      await tidings().transaction(owner, (values) =>
        values.put(keyOf(uploadId), { bytes, sha256 }, { expiresInMs: idleMs }),
      );
      return uploadId;
    },

    async find(owner, uploadId) {
      const upload = (await tidings().transaction(owner, (values) => values.get(keyOf(uploadId)))) as
        | Upload
        | undefined;
      const isThere =
        upload !== undefined &&
        (await touch(pathOf(upload)).then(
          () => true,
          () => false,
        ));
      if (!isThere) {
        throw new TidingsError(
          "UPLOAD_NOT_FOUND",
          "No such upload: it never existed, it expired, or it is not yours.",
          {
            hint: "Upload the file again by POST /uploads.",
          },
        );
      }
      return upload;
    },

    keepFor: (owner, jobId, { sha256 }) =>
      tidings().transaction(OWN, (values) => values.put(`${usesOf(sha256)}${jobId}`, { owner, jobId })),

    beginSweeping,

    async open(upload) {
      const path = pathOf(upload);
      try {
        await touch(path);
      } catch (error) {
        throw new PermanentError("UPLOAD_NOT_FOUND", "The uploaded file is no longer kept.", {
          hint: "Upload the file again and start a new job.",
          cause: error,
        });
      }
      return createReadStream(path, { highWaterMark: 1 << 18 });
    },

    async close() {
      closed = true;
      cancelSweep();
      // An upload that is cut now still has to remove what it has written.
      await Promise.allSettled([...receiving, sweeping]);
      if (folder === undefined) await rm(home, { recursive: true, force: true });
    },
  };
}

function keyOf(uploadId: string): string {
  return `upload:${uploadId}`;
}

export function tooLarge(): TidingsError {
  return new TidingsError("PAYLOAD_TOO_LARGE", `The file is larger than ${MAX_UPLOAD_BYTES} bytes (1 GB).`, {
    hint: "Split the file and start one job for each part.",
  });
}

function usesOf(sha256: string): string {
  return `file/${sha256}/`;
}

/** Whether a job of the file is kept; the others are forgotten. */
async function isKept(tidings: Tidings, sha256: string): Promise<boolean> {
  const uses = await tidings.transaction(OWN, (values) => values.list(usesOf(sha256), MOST_JOBS));
  const gone: string[] = [];
  for (const { key, value } of uses) {
    const { owner, jobId } = value as { readonly owner: string; readonly jobId: string };
    if (!(await isThere(tidings, owner, jobId))) gone.push(key);
  }
  if (gone.length > 0) {
    await tidings.transaction(OWN, async (values) => {
      for (const key of gone) await values.delete(key);
    });
  }
  return gone.length < uses.length || uses.length === MOST_JOBS;
}

async function isThere(tidings: Tidings, owner: string, jobId: string): Promise<boolean> {
  try {
    await tidings.get(owner, jobId);
    return true;
  } catch (error) {
    if (error instanceof TidingsError && error.code === "JOB_NOT_FOUND") return false;
    throw error;
  }
}

interface Sweep {
  readonly home: string;
  readonly idleMs: number;
  readonly now: () => number;
  readonly isKept: (sha256: string) => Promise<boolean>;
}

/** Another process may do the same at the same time: what has gone is no fault. */
async function removeOld({ home, idleMs, now, isKept }: Sweep): Promise<void> {
  for (const name of await readdir(home)) {
    const [, sha256] = /^(?:([0-9a-f]{64})\.csv|[0-9a-f]{32}\.part)$/.exec(name) ?? [name, ""];
    if (sha256 === "") continue;
    const path = join(home, name);
    const keepMs = sha256 === undefined ? KEEP_PART_MS : idleMs;
    const isIdle = async () => ((await usedAt(path)) ?? Number.POSITIVE_INFINITY) < now() - keepMs;
    // Looked at again behind the question: whoever began to use it meanwhile has touched it.
    if ((await isIdle()) && (sha256 === undefined || (!(await isKept(sha256)) && (await isIdle()))))
      await rm(path, { force: true });
  }
}

/** When a file was used last; undefined when it is gone. */
async function usedAt(path: string): Promise<number | undefined> {
  const file = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    return undefined;
  });
  return file?.mtimeMs;
}
