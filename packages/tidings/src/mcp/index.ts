/** Jobs and events over MCP: tools, resources and notifications, for an existing server, over HTTP and over stdio. */
export type { HttpHandler, HttpHandlerOptions, HttpRequest } from "./server/http-handler.ts";
export { createHttpHandler } from "./server/http-handler.ts";
export type { OwnerOf } from "./server/owner.ts";
export { defaultOwner } from "./server/owner.ts";
export type { JobToolOptions, RegisterJobOptions } from "./server/register-job.ts";
export {
  JOB_EVENTS_CAPABILITY,
  ownerOfRequest,
  registerJob,
  registerJobTool,
} from "./server/register-job.ts";
export type { GuardOptions } from "./server/request-guard.ts";
export { findForbidden } from "./server/request-guard.ts";
export { toResourceError } from "./server/resource-error.ts";
export { sendError } from "./server/send-error.ts";
export type { StdioHandle, StdioOptions } from "./server/serve-stdio.ts";
export { serveTidingsStdio } from "./server/serve-stdio.ts";
export { takeStdout } from "./server/stdout-guard.ts";
