/** Jobs and events over MCP: tools, resources and notifications, for an existing server, over HTTP and over stdio. */
export type { AccessOptions, ProtectedResource } from "./server/access.ts";
export type { BearerIssuer, TokenVerifier } from "./server/bearer.ts";
export { createBearerVerifier } from "./server/bearer.ts";
export type { EventStoreOptions } from "./server/event-store.ts";
export { createEventStore } from "./server/event-store.ts";
export type { HttpHandler, HttpHandlerOptions, HttpRequest } from "./server/http-handler.ts";
export { createHttpHandler } from "./server/http-handler.ts";
export type { JobGrant, JobToken, JobTokens } from "./server/job-token.ts";
export { createJobTokens, JOB_TOKEN_META_KEY } from "./server/job-token.ts";
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
export type { DurableServerEventBus, ServerEventBusOptions } from "./server/server-bus.ts";
export { createServerEventBus } from "./server/server-bus.ts";
export { closeWhenSlow } from "./server/slow-body.ts";
export { takeStdout } from "./server/stdout-guard.ts";
