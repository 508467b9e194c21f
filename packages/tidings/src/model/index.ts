/** The model: events, commands, the state machine, schemas and projections. Pure: no clock, no randomness, no I/O. */
export type { Command, CommandType, Refusal } from "./command.ts";
export { TRANSITIONS } from "./command.ts";
export type { Decision, NewJob } from "./decide.ts";
export { create, decide, eventIdOf } from "./decide.ts";
export type { EventDefinition, EventFrom } from "./define-event.ts";
export { defineEvent, payloadOf } from "./define-event.ts";
export type { ErrorCode, ErrorInfo, TidingsErrorOptions } from "./error.ts";
export { ERRORS, isErrorCode, TidingsError } from "./error.ts";
export type {
  CatalogueEvent,
  CatalogueType,
  CustomDraft,
  CustomEvent,
  Envelope,
  EventOf,
  InformationalDraft,
  JobEvent,
  JobEventType,
  LogLevel,
  TidingsEvent,
} from "./event.ts";
export { CATALOGUE, isCatalogueType, isStored, LOG_LEVELS, methodOf } from "./event.ts";
export type { EndStatus, Job, Status } from "./job.ts";
export { hasEnded, STATUSES } from "./job.ts";
export type { ProgressReport, Stage, StageSpec } from "./progress.ts";
export type { CloudEvent } from "./projection/cloud-event.ts";
export { fromCloudEvent, toCloudEvent } from "./projection/cloud-event.ts";
export { toNested } from "./projection/nested.ts";
export type { WireNotification } from "./projection/notification.ts";
export { CURSOR_META_KEY, EVENT_META_KEY, toFlat, toNotification } from "./projection/notification.ts";
export type { ReadOutcome } from "./projection/read.ts";
export { readEvent, readMessage } from "./projection/read.ts";
export { reduce } from "./reduce.ts";
export type { InputOf, OutputOf, StandardSchema } from "./standard-schema.ts";
