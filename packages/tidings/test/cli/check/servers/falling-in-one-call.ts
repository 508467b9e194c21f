/** Mistake 2 on MCP 2026-07-28: events travel on the stream of the call, and the bar jumps back before the answer. */
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { onTestFinished } from "vitest";
import { z } from "zod";

export async function serveFallingInOneCall(): Promise<string> {
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: "one-call", version: "1.0.0" });
    const config = { description: "Analyses", inputSchema: z.object({}) };
    server.registerTool("run_analysis", config, async (_, context) => {
      const jobId = randomUUID();
      for (const percentage of [10, 70, 30]) {
        const params = {
          eventId: randomUUID(),
          jobId,
          timestamp: new Date().toISOString(),
          percentage,
          stage: "Working",
        };
        await context.mcpReq.notify({ method: "notifications/job/progress", params });
      }
      return { content: [{ type: "text", text: JSON.stringify({ jobId }) }] };
    });
    return server;
  });
  const http = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const request = new Request(`http://${req.headers.host}${req.url}`, {
      method: req.method ?? "GET",
      headers: req.headers as Record<string, string>,
      ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks) }),
    });
    const response = await handler.fetch(request);
    res.writeHead(response.status, Object.fromEntries(response.headers));
    for await (const chunk of response.body ?? []) res.write(chunk);
    res.end();
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  });
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
}
