/** Sources over an MCP client: follow jobs through the connection that an agent or a host has already. */
export type { McpClient, McpClientOrConnect, McpSubscription } from "./client.ts";
export type { McpSourceOptions } from "./source.ts";
export { mcpSource, pollSource } from "./source.ts";
