/**
 * The handshake of MCP Apps, for when this page is a frame inside a host.
 *
 *   page ──ui/initialize──▶ host            page ──ui/notifications/initialized──▶ host
 *   host ──ui/notifications/tool-result──▶ page (once, twice, empty or never)
 *   host ──ui/resource-teardown, ping──▶ page, answered with an empty result
 */
export const isFramed = window.parent !== window;

/**
 * Connects to the host around this page.
 *
 * @param onJob - Called with the jobId of each tool result that has one.
 */
export function connectHost(onJob) {
  const send = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const tellSize = () =>
    send({
      method: "ui/notifications/size-changed",
      params: { width: document.documentElement.scrollWidth, height: document.body.offsetHeight },
    });

  window.addEventListener("message", ({ source, data }) => {
    if (source !== window.parent || data?.jsonrpc !== "2.0") return;
    if (data.id === "initialize" && data.method === undefined) {
      applyContext(data.result?.hostContext);
      send({ method: "ui/notifications/initialized", params: {} });
      new ResizeObserver(tellSize).observe(document.body);
    } else if (data.method === "ui/notifications/tool-result") {
      const jobId = data.params?.structuredContent?.jobId;
      if (typeof jobId === "string") onJob(jobId);
    } else if (data.method === "ui/notifications/host-context-changed") {
      applyContext(data.params);
    } else if (data.method === "ui/resource-teardown" || data.method === "ping") {
      send({ id: data.id, result: {} });
    }
  });
  send({
    id: "initialize",
    method: "ui/initialize",
    params: {
      appInfo: { name: "giftgenius-page", version: "0.1.0" },
      appCapabilities: {},
      protocolVersion: "2026-01-26",
    },
  });
}

function applyContext(context) {
  const theme = context?.theme;
  if (theme === "light" || theme === "dark") document.documentElement.style.colorScheme = theme;
}
