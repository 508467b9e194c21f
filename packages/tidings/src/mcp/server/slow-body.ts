/** Bodies that hardly come: each would hold a connection and what was read of it for as long as its sender likes. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { systemClock } from "../../engine/system-clock.ts";
import type { Clock } from "../../model/clock.ts";
import { sendJson } from "./http-message.ts";

const INTERVAL_MS = 15_000;
/** A body that is not complete must have brought this much in each interval. */
const LEAST_BYTES = 65_536;

/**
 * Answers 408 and closes the connection when a body brings less than 64 KiB in 15 seconds and is not complete. For
 * handlers of your own; `createHttpHandler` does it for its addresses. Slow headers are the server's own matter:
 * `server.headersTimeout = 15_000`.
 */
export function closeWhenSlow(
  req: IncomingMessage,
  res: ServerResponse,
  clock: Pick<Clock, "after"> = systemClock,
): void {
  const { socket } = req;
  const expectsBody =
    req.headers["transfer-encoding"] !== undefined || Number(req.headers["content-length"]) > 0;
  if (!expectsBody) return;
  let before = socket.bytesRead;
  let cancel = clock.after(INTERVAL_MS, function look() {
    if (req.complete || req.destroyed) return;
    if (socket.bytesRead - before >= LEAST_BYTES) {
      before = socket.bytesRead;
      cancel = clock.after(INTERVAL_MS, look);
      return;
    }
    if (res.headersSent) socket.destroy();
    else {
      const message = "The body of the request came too slowly: less than 64 KiB in 15 seconds.";
      const error = {
        code: "REQUEST_TIMEOUT",
        message,
        hint: "Send it again over a better connection.",
        retryable: true,
      };
      res.once("finish", () => socket.destroy());
      sendJson(res, 408, { error }, { Connection: "close" });
    }
  });
  const done = () => cancel();
  req.once("end", done);
  req.once("close", done);
}
