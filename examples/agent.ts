/**
 * An agent without a widget: `node --import tsx --conditions=@tidings/source examples/agent.ts http://127.0.0.1:3000/mcp`.
 *
 * It starts a job through MCP, follows its events and decides by them: failed with a hint → correct and start again;
 * completed → read the resource.
 */
import { pathToFileURL } from "node:url";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { EventOf } from "tidings/client";
import { follow } from "tidings/client";
import { mcpSource } from "tidings/mcp/client";

/** A file whose column of addresses has another name than GiftGenius looks for. */
const FILE = [
  "employee_id,full_name,mail,department,interests,budget",
  "E-1,Ada Arden,ada@example.com,Engineering,chess|hiking,60",
  "E-2,Bo Blom,bo@example.com,Sales,coffee;jazz,45.50",
].join("\n");

type Ending = EventOf<"job.completed"> | EventOf<"job.failed"> | EventOf<"job.canceled">;

/** @returns what the result resource held. */
export async function runAgent(url: string, print: (line: string) => void = console.log): Promise<unknown> {
  const client = new Client({ name: "agent", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  try {
    let csv = FILE;
    for (let tries = 1; tries <= 2; tries += 1) {
      const ending = await runJob(client, csv, print);
      if (ending.type === "job.completed") return await readResult(client, ending.resultResourceId);
      if (ending.type !== "job.failed" || ending.error.hint === undefined) break;
      print(`the server's hint: ${ending.error.hint}`);
      if (ending.error.code === "NO_EMAIL_COLUMN") csv = csv.replace("mail", "email");
    }
    throw new Error("The job could not be brought to a good end.");
  } finally {
    await client.close();
  }
}

async function runJob(client: Client, csv: string, print: (line: string) => void): Promise<Ending> {
  const answer = await client.callTool({ name: "start_bulk_gift_analysis", arguments: { csv } });
  const { jobId, cursor } = answer.structuredContent as { jobId: string; cursor: string };
  for await (const event of follow({ source: mcpSource(client), jobId, after: cursor })) {
    print(`${event.type} ${"stage" in event ? `${event.percentage} % ${event.stage}` : ""}`.trimEnd());
    if (event.type === "job.completed" || event.type === "job.failed" || event.type === "job.canceled") {
      return event as Ending;
    }
  }
  throw new Error(`The story of ${jobId} has no end.`);
}

async function readResult(client: Client, uri: string): Promise<unknown> {
  const { contents } = await client.readResource({ uri });
  const [content] = contents;
  return content !== undefined && "text" in content ? JSON.parse(content.text) : undefined;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const result = await runAgent(process.argv[2] ?? "http://127.0.0.1:3000/mcp");
  console.log(JSON.stringify(result, undefined, 2));
}
