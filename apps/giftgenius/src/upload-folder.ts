/**
 * The folder of uploaded files, and how much room they take in it: of each owner, and of all together.
 *
 *   begin(owner) ──growTo──▶ draft …growTo… ──keepAs──▶ OWNER-DIGEST.csv, on the disk for good ──remove──▶ gone
 *                   └ refused: OWNER_FULL,    └─discard──▶ gone
 *                     SERVER_FULL
 *
 * A draft's room is taken before its bytes come. Other processes may use the folder too: it is counted at the start and
 * again from time to time. Names never come from outside: they are digests, of the owner and of the content.
 */
import { createHash, randomBytes } from "node:crypto";
import { mkdir, open, readdir, rename, rm, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Clock, TidingsError } from "tidings";

/** How much uploaded files may take, in bytes. */
export interface UploadLimits {
  /** Of everybody together. Less when the disk has less. */
  readonly bytes: number;
  /** Of one owner. */
  readonly bytesPerOwner: number;
}

/** A file on its way in. It ends in `keepAs` or `discard`. */
export interface Draft {
  readonly path: string;
  /**
   * Takes room for so many bytes in all; less than it has already is no change.
   *
   * @throws TidingsError OWNER_FULL or SERVER_FULL, with the limit.
   */
  growTo(bytes: number): void;
  /** The file is there, with its name, after a loss of power too. A file of this owner with the same content is replaced. */
  keepAs(sha256: string, bytes: number): Promise<void>;
  /** Does nothing behind `keepAs`. */
  discard(): Promise<void>;
}

/** What lies in the folder under a name of ours. */
export interface FolderEntry {
  readonly name: string;
  readonly kind: "file" | "draft";
}

export interface UploadFolder {
  nameOf(owner: string, sha256: string): string;
  pathOf(name: string): string;
  begin(owner: string): Promise<Draft>;
  entries(): Promise<readonly FolderEntry[]>;
  /** What is gone already is no fault. */
  remove(name: string): Promise<void>;
  /** Looks what lies there, whoever put it there. */
  count(): Promise<void>;
}

/** How long a count is relied on where nothing was refused. */
const COUNT_AGAIN_MS = 60_000;
/** A file takes at least a block of the disk. */
const LEAST_BYTES = 4_096;
/** Left free for the store, which shares the disk. */
const FREE_BYTES = 256 * 1024 ** 2;
/** The same on a small disk. */
const FREE_SHARE = 0.05;
/** Room is made as jobs go, and that is looked at every hour. */
const RETRY_AFTER_MS = 3_600_000;

/** Files of the first layout have no owner in their name: nothing keeps them any more. */
const NAME = /^(?:([0-9a-f]{32})-)?(?:[0-9a-f]{64}\.csv|[0-9a-f]{32}\.part)$/;

/** Makes the folder when it is missing, inside one that exists, and counts what is there. */
export async function openUploadFolder(
  home: string,
  limits: UploadLimits,
  clock: Pick<Clock, "now">,
): Promise<UploadFolder> {
  await mkdir(home).then(
    () => sync(dirname(home)),
    (error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    },
  );
  /** By the digest of the owner. */
  let kept = new Map<string, number>();
  let keptByAll = 0;
  const taken = new Map<string, number>();
  let takenByAll = 0;
  let mostOfAll = limits.bytes;
  let countedAt = Number.NEGATIVE_INFINITY;
  const ownDrafts = new Set<string>();
  let turn: Promise<unknown> = Promise.resolve();

  /** One after another, so that a count never misses what is just given its name. */
  function inTurn<T>(act: () => Promise<T>): Promise<T> {
    const next = turn.then(act, act);
    turn = next.catch(() => undefined);
    return next;
  }

  async function count(): Promise<void> {
    const found = new Map<string, number>();
    let foundByAll = 0;
    let drafting = 0;
    for (const name of await readdir(home)) {
      const size = await sizeOf(join(home, name));
      if (size === undefined) continue;
      const takes = roomOf(size);
      if (ownDrafts.has(name)) {
        drafting += takes;
        continue;
      }
      foundByAll += takes;
      const owner = NAME.exec(name)?.[1];
      if (owner !== undefined) found.set(owner, (found.get(owner) ?? 0) + takes);
    }
    const { bavail, blocks, bsize } = await statfs(home);
    const spare = bavail * bsize - Math.min(FREE_BYTES, blocks * bsize * FREE_SHARE);
    mostOfAll = Math.min(limits.bytes, foundByAll + drafting + Math.max(0, Math.floor(spare)));
    kept = found;
    keptByAll = foundByAll;
    countedAt = clock.now();
  }

  function keep(owner: string, bytes: number): void {
    kept.set(owner, Math.max(0, (kept.get(owner) ?? 0) + bytes));
    keptByAll = Math.max(0, keptByAll + bytes);
  }

  function take(owner: string, bytes: number): void {
    const its = (taken.get(owner) ?? 0) + bytes;
    if (its > 0) taken.set(owner, its);
    else taken.delete(owner);
    takenByAll += bytes;
  }

  function checkRoom(owner: string, more: number): void {
    const its = (kept.get(owner) ?? 0) + (taken.get(owner) ?? 0);
    if (its + more > limits.bytesPerOwner) throw ownerFull(its, limits.bytesPerOwner);
    if (keptByAll + takenByAll + more > mostOfAll) throw serverFull(mostOfAll);
  }

  await count();
  return {
    nameOf: (owner, sha256) => `${digestOf(owner)}-${sha256}.csv`,
    pathOf: (name) => join(home, name),

    async begin(ownerName) {
      if (Math.abs(clock.now() - countedAt) >= COUNT_AGAIN_MS) await inTurn(count);
      const owner = digestOf(ownerName);
      const name = `${owner}-${randomBytes(16).toString("hex")}.part`;
      const path = join(home, name);
      let has = 0;
      const end = (): void => {
        ownDrafts.delete(name);
        take(owner, -has);
        has = 0;
      };
      ownDrafts.add(name);
      return {
        path,
        growTo(bytes) {
          const more = roomOf(bytes) - has;
          if (more <= 0) return;
          checkRoom(owner, more);
          take(owner, more);
          has += more;
        },
        keepAs: (sha256, bytes) =>
          inTurn(async () => {
            const final = join(home, `${owner}-${sha256}.csv`);
            const before = await sizeOf(final);
            await rename(path, final);
            keep(owner, roomOf(bytes) - (before === undefined ? 0 : roomOf(before)));
            end();
            await sync(home);
          }),
        async discard() {
          if (!ownDrafts.has(name)) return;
          await rm(path, { force: true });
          end();
        },
      };
    },

    async entries() {
      return (await readdir(home)).flatMap((name): FolderEntry[] =>
        NAME.test(name) ? [{ name, kind: name.endsWith(".part") ? "draft" : "file" }] : [],
      );
    },

    remove: (name) =>
      inTurn(async () => {
        const path = join(home, name);
        const size = await sizeOf(path);
        if (size === undefined) return;
        await rm(path, { force: true });
        const owner = NAME.exec(name)?.[1];
        if (owner !== undefined) keep(owner, -roomOf(size));
      }),

    count: () => inTurn(count),
  };
}

function roomOf(bytes: number): number {
  return Math.max(bytes, LEAST_BYTES);
}

function digestOf(owner: string): string {
  return createHash("sha256").update(owner).digest("hex").slice(0, 32);
}

/** Undefined when nothing is there. */
async function sizeOf(path: string): Promise<number | undefined> {
  const file = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    return undefined;
  });
  return file?.size;
}

/** A file's name is on the disk only when its folder is. */
async function sync(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function ownerFull(bytes: number, limit: number): TidingsError {
  return new TidingsError(
    "OWNER_FULL",
    `Your files take ${bytes} bytes already, and at most ${limit} may be kept; this one was not.`,
    {
      hint: "Send a smaller file, or wait: a file goes with the jobs that use it, and after a day when none does.",
      data: { limit, bytes, retryAfterMs: RETRY_AFTER_MS },
    },
  );
}

function serverFull(limit: number): TidingsError {
  return new TidingsError(
    "SERVER_FULL",
    `The files that people uploaded take all of the ${limit} bytes that this server has for them; this one was not kept.`,
    {
      hint: "Try again later: files go with the jobs that use them. The operator can give more room by GIFTGENIUS_UPLOAD_BYTES.",
      data: { limit, retryAfterMs: RETRY_AFTER_MS },
    },
  );
}
