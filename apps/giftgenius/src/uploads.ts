/**
 * Files that people hand over. The bytes lie in a folder, named by their owner's digest and their own; who may use them
 * stands in the store. A job refers to the content's digest, so a file that arrives twice is the same input twice.
 *
 *   POST /uploads ──▶ file ──▶ id, good for a day ──▶ job ──▶ ends ──▶ retried … ──▶ is no longer kept
 *                      └── kept for a day after its last use ───┴── kept as long as the job is ───┘ then it goes
 *                      └── its job was not started: gone in a minute or two
 */
import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdtemp, open, rm, stat, utimes } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Clock, Tidings } from "tidings";
import { PermanentError, TidingsError } from "tidings";
import { OWN } from "./own-values.ts";
import { openUploadFolder, type UploadLimits } from "./upload-folder.ts";
import { GRANTS, keptByJob, removeAbandoned, removeOld, usesOf } from "./upload-sweep.ts";

/** The largest file, where the limits of the folder leave so much. */
export const MAX_UPLOAD_BYTES = 1024 ** 3;
/** Some large files at once, and a week of usual ones. */
export const UPLOAD_LIMITS: UploadLimits = { bytes: 16 * 1024 ** 3, bytesPerOwner: 4 * 1024 ** 3 };
const DAY_MS = 24 * 3_600_000;
const SWEEP_EVERY_MS = 3_600_000;
/** Longer than a start takes: whoever begins to use a file in the same moment has said so by then. */
const ABANDON_MS = 60_000;

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
   * Streams an owner's file to disk. What it answers survives a loss of power.
   *
   * @param declaredBytes - How large the file says to be: then it is refused before its first byte is read.
   * @throws TidingsError PAYLOAD_TOO_LARGE above 1 GB; OWNER_FULL and SERVER_FULL beyond the limits; STORE_FULL when the
   *   disk is full all the same. Nothing is kept then.
   */
  receive(owner: string, source: AsyncIterable<Uint8Array>, declaredBytes?: number): Promise<Upload>;
  /** Gives an owner a name for a file, good for a day, or for as long as ended jobs are kept when that is shorter. */
  grant(owner: string, upload: Upload): Promise<string>;
  /** @throws TidingsError UPLOAD_NOT_FOUND, alike for unknown, foreign and expired ids. */
  find(owner: string, uploadId: string): Promise<Upload>;
  /** From now on the file stays for as long as the job is kept, which may be retried with it. */
  keepFor(owner: string, jobId: string, upload: Upload): Promise<void>;
  /** The job was not started: the file goes soon, unless another job or an id keeps it. */
  abandon(owner: string, upload: Upload): void;
  /**
   * Reads all of a file, to find out whether it is what its owner sent.
   *
   * @throws PermanentError UPLOAD_NOT_FOUND, UPLOAD_DAMAGED
   */
  verify(owner: string, upload: Upload, signal: AbortSignal): Promise<void>;
  /** Reads a file as a stream. @throws PermanentError UPLOAD_NOT_FOUND when it is no longer kept, UPLOAD_DAMAGED when it has another size. */
  open(owner: string, upload: Upload): Promise<AsyncIterable<Uint8Array>>;
  /** Removes files that no job and no recent use keeps: now, and every hour. */
  beginSweeping(): void;
  close(): Promise<void>;
}

export interface UploadsOptions {
  /** How long ended jobs are kept. */
  readonly retentionMs: number;
  /** Default `UPLOAD_LIMITS`. */
  readonly limits?: UploadLimits;
  /** Default: the machine's. */
  readonly clock?: Pick<Clock, "now" | "after">;
}

/**
 * Opens the folder and counts what it holds.
 *
 * @param place - Where to keep the files, in a folder that exists; undefined = a temporary folder that is removed at
 *   the end.
 * @param tidings - Asked for when it is needed: whose the files are, and which jobs are kept.
 */
export async function openUploads(
  place: string | undefined,
  tidings: () => Tidings,
  { retentionMs, limits = UPLOAD_LIMITS, clock = SYSTEM_CLOCK }: UploadsOptions,
): Promise<Uploads> {
  /** A file that no job uses goes so long after it was used last. */
  const idleMs = Math.min(DAY_MS, retentionMs);
  const mostBytes = Math.min(MAX_UPLOAD_BYTES, limits.bytes, limits.bytesPerOwner);
  const home = place ?? (await mkdtemp(join(tmpdir(), "giftgenius-")));
  const folder = await openUploadFolder(home, limits, clock).catch((error: Error) => {
    throw unwritable(home, error);
  });
  const touch = (path: string): Promise<void> => {
    const now = new Date(clock.now());
    return utimes(path, now, now);
  };

  let closed = false;
  let sweeping: Promise<void> = Promise.resolve();
  let cancelSweep = () => {};
  const sweep = async (): Promise<void> => {
    const isKept = (name: string) => keptByJob(tidings(), name);
    await quietly(async () => {
      await removeOld({ folder, idleMs, now: clock.now, isKept });
      await folder.count();
    });
    if (!closed) cancelSweep = clock.after(SWEEP_EVERY_MS, beginSweeping);
  };
  const beginSweeping = (): void => {
    cancelSweep();
    sweeping = sweep();
  };

  /** Whose files may have nobody who needs them, by name. */
  let abandoned = new Map<string, string>();
  let cancelAbandoned: (() => void) | undefined;
  let clearing: Promise<void> = Promise.resolve();
  const clear = (): void => {
    const files = abandoned;
    abandoned = new Map();
    cancelAbandoned = undefined;
    clearing = quietly(() =>
      removeAbandoned({ folder, idleMs: ABANDON_MS, now: clock.now, tidings: tidings() }, files),
    );
  };

  const receiving = new Set<Promise<Upload>>();
  const receive = async (
    owner: string,
    source: AsyncIterable<Uint8Array>,
    declaredBytes: number,
  ): Promise<Upload> => {
    if (declaredBytes > mostBytes) throw tooLarge(mostBytes);
    const draft = await folder.begin(owner);
    const hash = createHash("sha256");
    let bytes = 0;
    try {
      draft.growTo(declaredBytes);
      // Opened before: a stream that opens it would make it after all when it is cut at once.
      const file = await open(draft.path, "wx");
      await pipeline(
        source,
        async function* measure(chunks: AsyncIterable<Uint8Array>) {
          for await (const chunk of chunks) {
            bytes += chunk.length;
            if (bytes > mostBytes) throw tooLarge(mostBytes);
            draft.growTo(bytes);
            hash.update(chunk);
            yield chunk;
          }
        },
        file.createWriteStream({ flush: true }),
      );
      const sha256 = hash.digest("hex");
      await draft.keepAs(sha256, bytes);
      return { bytes, sha256 };
    } catch (error) {
      await draft.discard();
      throw asFull(error);
    }
  };

  /** The file's path, once it is marked as used. */
  const use = async (owner: string, { sha256, bytes }: Upload): Promise<string> => {
    const path = folder.pathOf(folder.nameOf(owner, sha256));
    const file = await touch(path)
      .then(() => stat(path))
      .catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT") throw error;
        throw new PermanentError("UPLOAD_NOT_FOUND", "The uploaded file is no longer kept.", {
          hint: "Upload the file again and start a new job.",
          cause: error,
        });
      });
    if (file.size !== bytes) throw damaged(`it has ${file.size} bytes instead of ${bytes}`);
    return path;
  };

  return {
    receive(owner, source, declaredBytes = 0) {
      const upload = receive(owner, source, declaredBytes).finally(() => receiving.delete(upload));
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
        (await touch(folder.pathOf(folder.nameOf(owner, upload.sha256))).then(
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
      tidings().transaction(OWN, (values) =>
        values.put(`${usesOf(folder.nameOf(owner, sha256))}${jobId}`, { owner, jobId }),
      ),

    abandon(owner, { sha256 }) {
      if (closed) return;
      abandoned.set(folder.nameOf(owner, sha256), owner);
      // A moment more than a file has to lie still, so that the first look finds it.
      cancelAbandoned ??= clock.after(ABANDON_MS + 1_000, clear);
    },

    async verify(owner, upload, signal) {
      const hash = createHash("sha256");
      for await (const chunk of createReadStream(await use(owner, upload), { highWaterMark: 1 << 18 })) {
        signal.throwIfAborted();
        hash.update(chunk as Buffer);
      }
      if (hash.digest("hex") !== upload.sha256) throw damaged("its content is another one");
    },

    open: async (owner, upload) => createReadStream(await use(owner, upload), { highWaterMark: 1 << 18 }),

    beginSweeping,

    async close() {
      closed = true;
      cancelSweep();
      cancelAbandoned?.();
      // An upload that is cut now still has to remove what it has written.
      await Promise.allSettled([...receiving, sweeping, clearing]);
      cancelSweep();
      if (place === undefined) await rm(home, { recursive: true, force: true });
    },
  };
}

/** Work that nobody waits for: what goes wrong is told to the operator, and the next round tries again. */
async function quietly(work: () => Promise<void>): Promise<void> {
  await work().catch((error: Error) => {
    if (error instanceof TidingsError && error.code === "STORE_CLOSED") return;
    const { message } = error;
    process.stderr.write(`${JSON.stringify({ level: "warn", during: "removing old uploads", message })}\n`);
  });
}

function keyOf(uploadId: string): string {
  return `${GRANTS}${uploadId}`;
}

function tooLarge(limit: number): TidingsError {
  const inWords = limit === MAX_UPLOAD_BYTES ? " (1 GB)" : "";
  return new TidingsError("PAYLOAD_TOO_LARGE", `The file is larger than ${limit} bytes${inWords}.`, {
    hint: "Split the file and start one job for each part.",
    data: { limit },
  });
}

/** A disk that is full before its limit is reached is told as a full store is: that lies on it as well. */
function asFull(error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code !== "ENOSPC" && code !== "EDQUOT") return error;
  return new TidingsError("STORE_FULL", `The disk of the uploads is full: ${message}.`, { cause: error });
}

function damaged(how: string): PermanentError {
  return new PermanentError("UPLOAD_DAMAGED", `The uploaded file is damaged: ${how}.`, {
    hint: "Upload the file again and start a new job.",
  });
}

function unwritable(home: string, error: Error): TidingsError {
  return new TidingsError(
    "UPLOADS_UNWRITABLE",
    `The folder for uploads, ${home}, cannot be used: ${error.message}.`,
    { hint: "Make the folder writable, or choose another place by TIDINGS_STORE.", cause: error },
  );
}
