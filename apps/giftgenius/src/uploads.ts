/**
 * Files that people hand over. The bytes lie in a folder, named by their digest; who may use them stands in the store.
 * A job refers to the digest, so a file that arrives twice is the same input twice.
 */
import { createHash, randomBytes } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Clock, Tidings } from "tidings";
import { PermanentError, TidingsError } from "tidings";

export const MAX_UPLOAD_BYTES = 1024 ** 3;
/** A draft that has not grown for so long belongs to a process that is gone. */
const KEEP_PART_MS = 3_600_000;
/** Longer than jobs are kept, so that a job's retry still finds its file. */
const KEEP_MS = 8 * 24 * 3_600_000;
const SWEEP_EVERY_MS = 3_600_000;

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
  /** Gives an owner a name for a file, good for eight days. */
  grant(tidings: Tidings, owner: string, upload: Upload): Promise<string>;
  /** From now on the file is kept for eight days more. @throws TidingsError UPLOAD_NOT_FOUND, alike for unknown, foreign and expired ids. */
  find(tidings: Tidings, owner: string, uploadId: string): Promise<Upload>;
  /** Reads a file as a stream. @throws PermanentError UPLOAD_NOT_FOUND when it is no longer kept. */
  open(upload: Upload): Promise<AsyncIterable<Uint8Array>>;
  close(): Promise<void>;
}

/**
 * Opens the folder, and removes what nobody has asked for in eight days: now, and every hour.
 *
 * @param folder - Where to keep the files, in a folder that exists; undefined = a temporary folder that is removed at
 *   the end.
 */
export async function openUploads(
  folder: string | undefined,
  clock: Pick<Clock, "now" | "after"> = SYSTEM_CLOCK,
): Promise<Uploads> {
  const home = folder ?? (await mkdtemp(join(tmpdir(), "giftgenius-")));
  try {
    await mkdir(home).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
    await removeOld(home, clock.now());
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
  const sweep = async (): Promise<void> => {
    await removeOld(home, clock.now()).catch((error: Error) => {
      const { message } = error;
      process.stderr.write(`${JSON.stringify({ level: "warn", during: "removing old uploads", message })}\n`);
    });
    if (!closed) cancelSweep = clock.after(SWEEP_EVERY_MS, () => void sweep());
  };
  let cancelSweep = clock.after(SWEEP_EVERY_MS, () => void sweep());

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

    async grant(tidings, owner, { bytes, sha256 }) {
      const uploadId = `upl_${randomBytes(18).toString("base64url")}`;
      await tidings.transaction(owner, (values) =>
        values.put(keyOf(uploadId), { bytes, sha256 }, { expiresInMs: KEEP_MS }),
      );
      return uploadId;
    },

    async find(tidings, owner, uploadId) {
      const upload = (await tidings.transaction(owner, (values) => values.get(keyOf(uploadId)))) as
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
      await Promise.allSettled(receiving);
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

/** Another process may do the same at the same time: what has gone is no fault. */
async function removeOld(home: string, nowMs: number): Promise<void> {
  for (const name of await readdir(home)) {
    if (!/^[0-9a-f]{64}\.csv$|^[0-9a-f]{32}\.part$/.test(name)) continue;
    const path = join(home, name);
    const file = await stat(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      return undefined;
    });
    const keepMs = name.endsWith(".part") ? KEEP_PART_MS : KEEP_MS;
    if (file !== undefined && file.mtimeMs < nowMs - keepMs) await rm(path, { force: true });
  }
}
