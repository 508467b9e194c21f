/** What a filter of events asks for. */
import type { TidingsEvent } from "../model/event.ts";
import type { EventFilter } from "./engine.ts";

/** Whether the filter narrows nothing: then the owner's whole log is meant. */
export function isEverything({ jobIds, correlationId, resourceIds }: EventFilter): boolean {
  return jobIds === undefined && correlationId === undefined && resourceIds === undefined;
}

/** Whether an event is among those that a filter asks for. */
export function matches(filter: EventFilter, event: TidingsEvent): boolean {
  const { jobIds, correlationId, resourceIds } = filter;
  return (
    isEverything(filter) ||
    (event.jobId !== undefined && jobIds?.includes(event.jobId) === true) ||
    (event.correlationId !== undefined && event.correlationId === correlationId) ||
    (event.resourceId !== undefined && resourceIds?.includes(event.resourceId) === true)
  );
}
