/** Everything that this page asks of the server: uploads, tools, resources, snapshots and streams of events. */

const PROTOCOL = "2026-07-28";
const SILENT_MS = 20_000;
const STALE_MS = 45_000;
const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 8_000;
const PATIENCE = 4;

/** A failure that can be shown: `code`, a sentence, and what to do. */
export class ServerError extends Error {
  constructor({ code, message, hint, retryable }, status) {
    super(message ?? "The server refused without saying why.");
    this.code = code ?? "UNKNOWN";
    this.hint = hint;
    this.retryable = retryable === true;
    this.status = status;
  }
}

/** The object that a text stands for; what is none is passed over. */
function parsed(json) {
  try {
    const value = JSON.parse(json);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function unreachable() {
  return new ServerError({
    code: "UNREACHABLE",
    message: "The server cannot be reached.",
    hint: "Check the connection and try again; nothing is lost.",
    retryable: true,
  });
}

async function request(url, options) {
  try {
    return await fetch(url, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
}

/** Requests that say who asks; a refusal for that reason lets the page ask for a token. */
function signedRequest(signIn) {
  return async (url, options = {}) => {
    const response = await request(url, { ...options, headers: { ...options.headers, ...signIn.headers() } });
    if (response.status === 401) signIn.ask();
    return response;
  };
}

async function refusalOf(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {}
  return new ServerError(
    {
      code: error.data?.code ?? error.code ?? `HTTP_${response.status}`,
      message: error.message ?? `The server answered with status ${response.status}.`,
      hint: error.data?.hint ?? error.hint,
      retryable: error.retryable ?? response.status >= 500,
    },
    response.status,
  );
}

/** Reads an SSE body frame by frame; `heard` is called for every piece that arrives, comments included. */
async function* frames(response, heard) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let frame = { id: undefined, event: "message", data: [] };
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop();
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      const [, name, text] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
      if (name === "id") frame.id = text;
      else if (name === "event") frame.event = text;
      else if (name === "data") frame.data.push(text);
      if (line !== "") continue;
      if (frame.data.length > 0 || frame.id !== undefined) yield { ...frame, data: frame.data.join("\n") };
      frame = { id: undefined, event: "message", data: [] };
    }
  }
}

/**
 * @param base - Address of the server without a closing slash; empty = where this page comes from.
 * @param signIn - Whose requests these are; see `createSignIn`.
 */
export function createServer(base, signIn) {
  let lastId = 0;
  const ask = signedRequest(signIn);

  async function rpc(method, name, params) {
    const id = ++lastId;
    const response = await ask(`${base}/mcp`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": PROTOCOL,
        "mcp-method": method,
        "mcp-name": name,
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id,
        method,
        params: {
          ...params,
          _meta: {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientInfo": { name: "giftgenius-page", version: "0.1.0" },
            "io.modelcontextprotocol/clientCapabilities": {},
          },
        },
      }),
    });
    if (!response.ok) throw await refusalOf(response);
    const answer = await answerTo(id, response);
    if (answer.error !== undefined) throw new ServerError({ ...answer.error, ...answer.error.data });
    return answer.result;
  }

  async function answerTo(id, response) {
    try {
      if (!response.headers.get("content-type")?.startsWith("text/event-stream"))
        return await response.json();
      for await (const { data } of frames(response, () => {})) {
        const message = parsed(data);
        if (message?.id === id) return message;
      }
    } catch {}
    throw unreachable();
  }

  return {
    /** Calls a tool and gives its structured content. Safe to repeat only where the tool is. */
    async call(name, args) {
      const result = await rpc("tools/call", name, { name, arguments: args });
      if (result.isError) throw new ServerError(result.structuredContent?.error ?? {});
      return result.structuredContent;
    },

    async readResource(uri) {
      const { contents } = await rpc("resources/read", uri, { uri });
      return JSON.parse(contents[0].text);
    },

    async snapshot(jobId) {
      const response = await ask(`${base}/jobs/${encodeURIComponent(jobId)}`);
      if (!response.ok) throw await refusalOf(response);
      return response.json();
    },

    /** Gives what stands at a path as a file. */
    async file(path) {
      const response = await request(base + path);
      if (!response.ok) throw await refusalOf(response);
      return new File([await response.blob()], path.slice(path.lastIndexOf("/") + 1), { type: "text/csv" });
    },

    async exists(path) {
      const response = await request(base + path, { method: "HEAD" }).catch(() => undefined);
      return response?.ok === true;
    },

    /** `fetch` tells nothing about an upload's progress, hence the older interface. */
    upload(file, onProgress) {
      return new Promise((resolve, reject) => {
        const call = new XMLHttpRequest();
        call.open("POST", `${base}/uploads`);
        const headers = { "content-type": "text/csv", ...signIn.headers() };
        for (const [name, value] of Object.entries(headers)) call.setRequestHeader(name, value);
        call.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 1);
        call.onerror = () => reject(unreachable());
        call.onload = () => {
          const response = new Response(call.response, { status: call.status });
          if (call.status === 401) signIn.ask();
          if (call.status === 201) resolve(response.json());
          else void refusalOf(response).then(reject);
        };
        call.send(file);
      });
    },

    /** @see followStream */
    follow: (path, reader) => followStream(ask, base + path, reader),
  };
}

/** Repeats what may be repeated while the server cannot be reached. */
export async function patiently(ask) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      if (error.code !== "UNREACHABLE" || attempt === PATIENCE) throw error;
      await new Promise((resolve) => setTimeout(resolve, FIRST_DELAY_MS * 2 ** attempt));
    }
  }
}

/**
 * Follows a stream of events until the server says that it is over, and comes back after every loss with the last
 * cursor.
 *
 *   connecting ──first byte──▶ live ──lost──▶ reconnecting ──nobody there──▶ offline
 *                               ▲                  └────────byte────────────────┘ │
 *                               └──────────────────────────byte──────────────────┘
 *
 * @param ask - As `fetch`.
 * @param path - Of the stream; its query may hold anything but `after`.
 * @param reader - `onFrame({ id, event, data })` with the data parsed, and where wanted `after`, `onConnection(state)`,
 *   `onSilent()` after 20 s without a byte,
 *   `onStale(isStale)` after 45 s, `onEnd()` on 204, `onRefused(error)` when the server refuses for good.
 * @returns `stop()` and `retryNow()`.
 */
function followStream(ask, path, { after, onFrame, onConnection, onSilent, onStale, onEnd, onRefused }) {
  let stopped = false;
  let failures = 0;
  let controller;
  let wake = () => {};
  let timers = [];

  const heard = () => {
    for (const timer of timers) clearTimeout(timer);
    timers = stopped
      ? []
      : [
          setTimeout(() => onSilent?.(), SILENT_MS),
          setTimeout(() => {
            onStale?.(true);
            controller?.abort();
          }, STALE_MS),
        ];
  };

  const readOnce = async () => {
    controller = new AbortController();
    const query =
      after === undefined ? "" : `${path.includes("?") ? "&" : "?"}after=${encodeURIComponent(after)}`;
    const response = await ask(path + query, {
      headers: { accept: "text/event-stream" },
      signal: controller.signal,
    });
    if (stopped) return;
    if (response.status === 204) return finish(onEnd);
    if (!response.ok) throw await refusalOf(response);
    failures = 0;
    onConnection?.("live");
    onStale?.(false);
    for await (const frame of frames(response, heard)) {
      if (stopped) return;
      after = frame.id ?? after;
      onStale?.(false);
      const data = parsed(frame.data);
      if (data !== undefined) onFrame({ id: frame.id, event: frame.event, data });
    }
  };

  const finish = (tell, ...about) => {
    stop();
    tell?.(...about);
  };

  const stop = () => {
    stopped = true;
    heard();
    controller?.abort();
    wake();
  };

  const run = async () => {
    onConnection?.("connecting");
    while (!stopped) {
      heard();
      try {
        await readOnce();
      } catch (error) {
        if (stopped) return;
        if (error.code === "BAD_CURSOR" && after !== undefined) after = undefined;
        else if (error.status >= 400 && error.status < 500 && error.status !== 429)
          return finish(onRefused, error);
      }
      if (stopped) return;
      failures += 1;
      onConnection?.(failures > 2 || navigator.onLine === false ? "offline" : "reconnecting");
      const delay =
        Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (failures - 1)) * (0.75 + Math.random() / 2);
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, delay);
      });
    }
  };
  void run();
  return { stop, retryNow: () => wake() };
}
