/** Many readers of event streams over bare sockets, so that the load costs little beside the server. */
import { connect, type Socket } from "node:net";

const MARK = Buffer.from("\ndata: ");
const STAMP = Buffer.from('"changeType":"');

export interface Readers {
  readonly count: number;
  /** Resolves once every reader has had as many events as this, since the last `reset`. */
  until(events: number): Promise<void>;
  reset(): void;
  /** The newest cursor that the first reader was told. */
  readonly cursor: string;
  /** Milliseconds from publishing to arrival, of every delivery since the last `reset`. */
  readonly delays: readonly number[];
  close(): void;
}

export interface ReadersOptions {
  readonly port: number;
  readonly count: number;
  /** The HTTP request that opens a stream. */
  readonly request: (reader: number) => string;
  /** Whether delays are noted: it costs a little. */
  readonly timed?: boolean;
}

/** Resolves once every reader has had the head of its answer. */
export async function openReaders({ port, count, request, timed = false }: ReadersOptions): Promise<Readers> {
  const counts = new Array<number>(count).fill(0);
  const sockets: Socket[] = [];
  let delays: number[] = [];
  let target = Number.POSITIVE_INFINITY;
  let behind = count;
  let reached = () => {};
  let cursor = "";

  function arrived(reader: number): void {
    const had = (counts[reader] ?? 0) + 1;
    counts[reader] = had;
    if (had === target) {
      behind -= 1;
      if (behind === 0) reached();
    }
  }

  const open = (reader: number) =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(port, "127.0.0.1");
      sockets.push(socket);
      let tail = Buffer.alloc(0);
      socket.once("connect", () => socket.write(request(reader)));
      socket.once("error", reject);
      socket.on("data", (chunk) => {
        resolve();
        const bytes = tail.length === 0 ? chunk : Buffer.concat([tail, chunk]);
        if (timed && reader === 0) cursor = lastCursorIn(bytes) ?? cursor;
        let from = 0;
        for (;;) {
          const at = bytes.indexOf(MARK, from);
          if (at === -1) break;
          const end = bytes.indexOf(10, at + MARK.length);
          if (end === -1) {
            from = at;
            break;
          }
          const told = bytes.indexOf(STAMP, at);
          // Acknowledgements and the like are no events.
          if (told !== -1 && told < end) {
            if (timed) delays.push(delayOf(bytes, told + STAMP.length));
            arrived(reader);
          }
          from = end;
        }
        const kept =
          bytes.indexOf(MARK, from) === from ? from : Math.max(from, bytes.length - MARK.length + 1);
        tail = Buffer.from(bytes.subarray(kept));
      });
    });
  for (let begun = 0; begun < count; begun += 100) {
    const batch = Array.from({ length: Math.min(100, count - begun) }, (_, index) => open(begun + index));
    await Promise.all(batch);
  }

  return {
    count,
    until(events) {
      target = events;
      behind = counts.filter((had) => had < events).length;
      if (behind === 0) return Promise.resolve();
      return new Promise((resolve) => {
        reached = resolve;
      });
    },
    reset() {
      counts.fill(0);
      delays = [];
      target = Number.POSITIVE_INFINITY;
    },
    get delays() {
      return delays;
    },
    get cursor() {
      return cursor;
    },
    close() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

function lastCursorIn(bytes: Buffer): string | undefined {
  const at = bytes.lastIndexOf("id: ");
  return at === -1 ? undefined : /^id: (\S+)\n/.exec(bytes.subarray(at, at + 600).toString("latin1"))?.[1];
}

function delayOf(bytes: Buffer, at: number): number {
  const text = bytes.subarray(at, at + 24).toString("latin1");
  return Number(process.hrtime.bigint() - BigInt(/^\d+/.exec(text)?.[0] ?? "0")) / 1e6;
}

/** A reader that asks and then reads nothing, and one that reads 1 kB a second. */
export async function openBadReaders(port: number, request: string): Promise<{ close(): void }> {
  const stalled = connect(port, "127.0.0.1");
  stalled.once("connect", () => stalled.write(request));
  stalled.pause();
  const slow = connect(port, "127.0.0.1");
  slow.once("connect", () => slow.write(request));
  const timer = setInterval(() => void slow.read(1_024), 1_000);
  slow.on("readable", () => {});
  for (const socket of [stalled, slow]) socket.on("error", () => {});
  await new Promise((resolve) => slow.once("readable", resolve));
  return {
    close() {
      clearInterval(timer);
      stalled.destroy();
      slow.destroy();
    },
  };
}
