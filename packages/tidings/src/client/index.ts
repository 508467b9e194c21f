/**
 * The client: reads the story of jobs in a browser, in Node or beside any MCP client that exists already. Needs nothing
 * of Node, and nothing but `fetch`.
 */
export type { Clock, Random } from "../model/clock.ts";
export type { EventDefinition, EventFrom } from "../model/define-event.ts";
export { defineEvent } from "../model/define-event.ts";
export type { ErrorCode, ErrorInfo } from "../model/error.ts";
export { TidingsError } from "../model/error.ts";
export type {
  CatalogueEvent,
  CatalogueType,
  CustomEvent,
  Envelope,
  EventOf,
  JobEvent,
  JobEventType,
  TidingsEvent,
} from "../model/event.ts";
export type { EndStatus, Job, Status } from "../model/job.ts";
export { hasEnded } from "../model/job.ts";
export { CURSOR_META_KEY, EVENT_META_KEY } from "../model/projection/notification.ts";
export type { ReadOutcome } from "../model/projection/read.ts";
export { readEvent, readMessage } from "../model/projection/read.ts";
export { reduce } from "../model/reduce.ts";
export type { Connection, ConnectionState } from "./connection.ts";
export type { FollowedJob, FollowOptions, FollowTarget, Story, StoryEvent } from "./follow.ts";
export { follow } from "./follow.ts";
export type { EventListener, Inbox } from "./inbox.ts";
export { createInbox } from "./inbox.ts";
export type { InboxOptions } from "./inbox-options.ts";
export type { Arrivals, EventFor, EventHandler, HandlerOptions, SubscriptionOptions } from "./on-event.ts";
export { createEventHandler, onEvent } from "./on-event.ts";
export type { Once, TransactionRunner, ValueTransaction } from "./once.ts";
export { createDurableOnce, createMemoryOnce } from "./once.ts";
export type { Gap, InboxCounters, Receipt } from "./receipt.ts";
export type { ClientJob } from "./snapshot.ts";
export type { CallTool, PollOptions } from "./source/poll.ts";
export { createPollSource } from "./source/poll.ts";
export type { Source, SourceItem, SourceRequest } from "./source/source.ts";
export type { SseOptions } from "./source/sse.ts";
export { createSseSource } from "./source/sse.ts";
export type { JobStore } from "./store.ts";
export { createJobStore } from "./store.ts";
