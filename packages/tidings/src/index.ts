/** Tidings: durable jobs and events. Define jobs, start them, read their story. */
export type { Engine, JobTransaction, Transaction } from "./engine/engine.ts";
export { openEngine } from "./engine/open-engine.ts";
export type { EventDefinition, EventFrom } from "./model/define-event.ts";
export { defineEvent } from "./model/define-event.ts";
export type { ErrorCode, ErrorInfo } from "./model/error.ts";
export { TidingsError } from "./model/error.ts";
export type {
  CatalogueEvent,
  CatalogueType,
  CustomEvent,
  Envelope,
  EventOf,
  InformationalDraft,
  LogLevel,
  TidingsEvent,
} from "./model/event.ts";
export type { EndStatus, Job, Status } from "./model/job.ts";
export { hasEnded } from "./model/job.ts";
export type { StageSpec } from "./model/progress.ts";
export type { InputOf, OutputOf, StandardSchema } from "./model/standard-schema.ts";
export type { TidingsOptions } from "./runtime/create-tidings.ts";
export { createTidings } from "./runtime/create-tidings.ts";
export type {
  AnyJobDefinition,
  JobContext,
  JobDefinition,
  JobOptions,
  JobOutcome,
} from "./runtime/define-job.ts";
export { defineJob } from "./runtime/define-job.ts";
export { PermanentError, RetryAfter } from "./runtime/error.ts";
export type { JobSnapshot } from "./runtime/snapshot.ts";
export type {
  Delivery,
  EventPage,
  PublishDraft,
  StartAnswer,
  StartOptions,
  TailItem,
  Tidings,
} from "./runtime/tidings.ts";
