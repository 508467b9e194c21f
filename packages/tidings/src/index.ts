/** Tidings: durable jobs and events. Define jobs, start them, read their story. */
export type { Engine, EventFilter, JobTransaction, Transaction } from "./engine/engine.ts";
export { openEngine } from "./engine/open-engine.ts";
export type { Clock, Random } from "./model/clock.ts";
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
export { hasEnded, isEndType } from "./model/job.ts";
export type { StageSpec } from "./model/progress.ts";
export type { CloudEvent } from "./model/projection/cloud-event.ts";
export { fromCloudEvent, toCloudEvent } from "./model/projection/cloud-event.ts";
export { toNested } from "./model/projection/nested.ts";
export type { WireNotification } from "./model/projection/notification.ts";
export { toNotification } from "./model/projection/notification.ts";
export type { ReadOutcome } from "./model/projection/read.ts";
export { readEvent, readMessage } from "./model/projection/read.ts";
export { reduce } from "./model/reduce.ts";
export type { InputOf, OutputOf, StandardSchema } from "./model/standard-schema.ts";
export type { TidingsOptions } from "./runtime/create-tidings.ts";
export { createTidings } from "./runtime/create-tidings.ts";
export type {
  AnyJobDefinition,
  JobContext,
  JobDefinition,
  JobOptions,
  JobOutcome,
  JobReturn,
} from "./runtime/define-job.ts";
export { defineJob } from "./runtime/define-job.ts";
export type { OutsideEffect } from "./runtime/effect-keys.ts";
export { EFFECTS_COLLECTION } from "./runtime/effect-keys.ts";
export { PermanentError, RetryAfter } from "./runtime/error.ts";
export type { HealthReport } from "./runtime/health.ts";
export type { IsolateOptions } from "./runtime/isolate/isolation.ts";
export type { Limits } from "./runtime/limits.ts";
export type { JobSnapshot } from "./runtime/snapshot.ts";
export type {
  Delivery,
  EventPage,
  PublishDraft,
  StartAnswer,
  StartOptions,
  SubscribeRequest,
  Subscriber,
  Subscription,
  TailItem,
  TailRequest,
  Tidings,
} from "./runtime/tidings.ts";
