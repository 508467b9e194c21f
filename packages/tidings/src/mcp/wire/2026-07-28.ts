/**
 * MCP 2026-07-28: events travel on `subscriptions/listen`, each message tagged with the listen request's id.
 *
 *   resourceSubscriptions: [job://{id}]   notifications/resources/updated { uri, _meta: {event, cursor, subscriptionId} }
 *   "dev.tidings/jobs": {…}               the event's own notification, tagged alike
 *   outside a listen (stdio only)         the event's own notification, always in our own namespace
 *
 * Two things differ from 2025-11-25. `notifications/message` belongs to one request here, so a log travels as
 * `notifications/system/log`. Changes of resources go to subscriptions only, so outside one they travel as
 * `notifications/resource/…`. Both are flat, and every reader of ours takes them.
 */
import type { TidingsEvent } from "../../model/event.ts";
import type { WireNotification } from "../../model/projection/notification.ts";
import { CURSOR_META_KEY, toFlat, toNotification } from "../../model/projection/notification.ts";
import type { WireEvent } from "./2025-11-25.ts";
import { toResourceUpdate as toUntaggedUpdate } from "./2025-11-25.ts";

export const REVISION = "2026-07-28";
/** Where the id of the listen request stands in every message of its stream. */
export const SUBSCRIPTION_ID_META_KEY = "io.modelcontextprotocol/subscriptionId";
/** Our own field of the listen filter. */
export const JOBS_FILTER_KEY = "dev.tidings/jobs";
/** Events are no longer kept; `params.snapshots` says how their jobs stand. */
export const GAP_METHOD = "notifications/dev.tidings/gap";

/** The id of a JSON-RPC request, in the type it came in. */
export type RequestId = string | number;

/** The event as a notification of its own; `subscriptionId` is left out on a connection that is not a listen stream. */
export function toEventNotification(delivery: WireEvent, subscriptionId?: RequestId): WireNotification {
  const { event, cursor } = delivery;
  if (event.type === "system.log" || (subscriptionId === undefined && isGated(event))) {
    const notification = {
      method: `notifications/${event.type.replaceAll(".", "/")}`,
      params: toFlat(event, cursor),
    };
    return subscriptionId === undefined ? notification : tag(notification, subscriptionId);
  }
  const notification = toNotification(event, cursor);
  return subscriptionId === undefined ? notification : tag(notification, subscriptionId);
}

/** The event as an update of a resource that a listen named. Without an id the SDK's own listen router adds it. */
export function toResourceUpdate(
  uri: string,
  delivery: WireEvent,
  subscriptionId?: RequestId,
): WireNotification {
  const notification = toUntaggedUpdate(uri, delivery);
  return subscriptionId === undefined ? notification : tag(notification, subscriptionId);
}

/** How jobs stand, instead of events before the cursor that are no longer kept. */
export function toGapNotification(snapshots: readonly object[], cursor: string): WireNotification {
  return { method: GAP_METHOD, params: { snapshots, _meta: { [CURSOR_META_KEY]: cursor } } };
}

/** Adds the id of the listen request to a message of its stream. */
export function tag(notification: WireNotification, subscriptionId: RequestId): WireNotification {
  const { method, params } = notification;
  return {
    method,
    params: { ...params, _meta: { ...(params._meta as object), [SUBSCRIPTION_ID_META_KEY]: subscriptionId } },
  };
}

function isGated(event: TidingsEvent): boolean {
  return event.type === "resource.updated" || event.type === "resource.list_changed";
}
