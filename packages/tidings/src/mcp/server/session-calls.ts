/**
 * The calls of a 2025 session that are not answered yet. The SDK's transport carries them; what it leaves out is here.
 *
 *   begun ──▶ open ──┬── answered ──▶ over
 *                    ├── notifications/cancelled ──▶ over: its stream ends, and no answer is ever given; where other
 *                    │                               calls share the stream, an error is its answer
 *                    └── the session ends ──▶ answered with an error, so that nobody takes silence for success
 *
 * What is said about a call waits while its reader's socket is full; a reader that is full for too long is cut, and
 * resumes by Last-Event-ID. A connection that breaks ends no call.
 */
import type { ServerResponse } from "node:http";
import type { JSONRPCMessage, RequestId, TransportSendOptions } from "@modelcontextprotocol/server";
import { drained } from "./http-message.ts";
import { correctParamsError } from "./params-error.ts";
import type { SessionReplay } from "./session-replay.ts";

export interface SessionCalls {
  /**
   * Takes note of the calls in a POST's body; returns the way to forget them, when they were refused. Undefined when one
   * of them has the id of another call: their answers could not be told apart.
   */
  begin(body: unknown, res: ServerResponse): (() => void) | undefined;
  /** Sends an answer, or what is said about a call. */
  send(message: JSONRPCMessage, sending?: TransportSendOptions): Promise<void>;
  /** Ends the calls that a POST's body cancels; to be called once the server has taken note. */
  endCancelled(body: unknown): Promise<void>;
  /** Another connection carries a stream from now on. */
  resume(stream: string, res: ServerResponse): void;
  /** Answers every open call with an error. */
  answerAll(): Promise<void>;
}

export interface SessionCallsOptions {
  /** The transport's own way to send. */
  readonly send: (message: JSONRPCMessage, sending?: TransportSendOptions) => Promise<void>;
  readonly closeStream: (id: RequestId) => void;
  readonly replay: SessionReplay;
}

interface Call {
  readonly res: ServerResponse;
  /** Several calls in one body share a stream. */
  readonly isAlone: boolean;
}

/** What may wait for one reader; then it is cut. */
const MAX_WAITING_BYTES = 8 * 1_024 * 1_024;

export function createSessionCalls({ send, closeStream, replay }: SessionCallsOptions): SessionCalls {
  const open = new Map<RequestId, Call>();
  const resumed = new Map<string, ServerResponse>();
  const waiting = new WeakMap<ServerResponse, number>();

  async function waitForRoom(res: ServerResponse, message: JSONRPCMessage): Promise<void> {
    if (!res.writableNeedDrain) return;
    const size = Buffer.byteLength(JSON.stringify(message));
    const before = waiting.get(res) ?? 0;
    waiting.set(res, before + size);
    if (before + size > MAX_WAITING_BYTES && before > 0) res.destroy();
    else await drained(res);
    waiting.set(res, (waiting.get(res) ?? size) - size);
  }

  return {
    begin(body, res) {
      const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
      const call: Call = { res, isAlone: messages.length === 1 };
      const ids = messages.map(callIdOf).filter((id) => id !== undefined);
      if (new Set(ids).size < ids.length || ids.some((id) => open.has(id))) return undefined;
      for (const id of ids) open.set(id, call);
      return () => {
        for (const id of ids) if (open.get(id) === call) open.delete(id);
      };
    },
    async send(message, sending) {
      const isAnswer = "result" in message || "error" in message;
      const id = isAnswer ? message.id : sending?.relatedRequestId;
      const call = id === undefined ? undefined : open.get(id);
      if (isAnswer && id !== undefined) open.delete(id);
      const sent = send(correctParamsError(message), sending);
      // The transport has stored the message by now, under the name of its stream.
      const res = resumed.get(replay.latestStream) ?? call?.res;
      await sent;
      if (!isAnswer && res !== undefined) await waitForRoom(res, message);
    },
    async endCancelled(body) {
      const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
      for (const id of messages.map(cancelledIdOf)) {
        const call = id === undefined ? undefined : open.get(id);
        if (id === undefined || call === undefined) continue;
        open.delete(id);
        // The transport forgets a call, and ends its stream, only when it is answered.
        const answer = errorOf(id, "The call was cancelled.");
        if (call.isAlone) {
          // This answer has no stream, and is kept nowhere.
          closeStream(id);
          replay.withdraw(answer);
        }
        await send(answer);
      }
    },
    resume(stream, res) {
      resumed.set(stream, res);
      res.once("close", () => {
        if (resumed.get(stream) === res) resumed.delete(stream);
      });
    },
    async answerAll() {
      const ids = [...open.keys()];
      open.clear();
      const message =
        "The session has ended before this call was answered. Send `initialize` again; jobs go on, and are read by their id.";
      for (const id of ids) await send(errorOf(id, message)).catch(() => {});
    },
  };
}

function errorOf(id: RequestId, message: string): JSONRPCMessage {
  return { jsonrpc: "2.0", id, error: { code: -32000, message } };
}

function isRequestId(id: unknown): id is RequestId {
  return typeof id === "string" || typeof id === "number";
}

function callIdOf(message: unknown): RequestId | undefined {
  if (typeof message !== "object" || message === null) return undefined;
  const { id, method } = message as { id?: unknown; method?: unknown };
  return isRequestId(id) && typeof method === "string" ? id : undefined;
}

function cancelledIdOf(body: unknown): RequestId | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  const { method, params } = body as { method?: unknown; params?: { requestId?: unknown } | null };
  const id = method === "notifications/cancelled" ? params?.requestId : undefined;
  return isRequestId(id) ? id : undefined;
}
