/**
 * MCP 2025-11-25 and older: events are pushed on a session's GET stream or over stdio.
 *
 *   an event of a job          its own notification, flat:     notifications/job/progress { …event, _meta: {cursor} }
 *   a changed resource, a log  the standard's notification:    notifications/resources/updated { uri, _meta: {event, cursor} }
 *   a subscribed job://{id}    a resource update of that URI:  notifications/resources/updated { uri, _meta: {event, cursor} }
 *   events no longer kept      the same without an event:      notifications/resources/updated { uri, _meta: {cursor} }
 */
import type { TidingsEvent } from "../../model/event.ts";
import type { WireNotification } from "../../model/projection/notification.ts";
import { CURSOR_META_KEY, EVENT_META_KEY, toNotification } from "../../model/projection/notification.ts";

export const REVISION = "2025-11-25";

/** An event and, when it stands in a log, its cursor. */
export interface WireEvent {
  readonly event: TidingsEvent;
  readonly cursor?: string;
}

/** The event as a notification of its own. */
export function toEventNotification({ event, cursor }: WireEvent): WireNotification {
  return toNotification(event, cursor);
}

/** The event as an update of a resource that somebody subscribed to: the event travels in `_meta`. */
export function toResourceUpdate(uri: string, { event, cursor }: WireEvent): WireNotification {
  const position = cursor === undefined ? {} : { [CURSOR_META_KEY]: cursor };
  return {
    method: "notifications/resources/updated",
    params: { uri, _meta: { [EVENT_META_KEY]: event, ...position } },
  };
}

/** Events of a resource before the cursor are no longer kept: it may have changed, so it is worth reading again. */
export function toPlainUpdate(uri: string, cursor: string): WireNotification {
  return { method: "notifications/resources/updated", params: { uri, _meta: { [CURSOR_META_KEY]: cursor } } };
}
