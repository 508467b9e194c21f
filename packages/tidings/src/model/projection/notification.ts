/**
 * The canonical wire form: a JSON-RPC notification with the flat event as `params`. Three standard MCP methods are
 * the exception, because clients strip what the standard does not name: they carry the event under `_meta`.
 */
import type { TidingsEvent } from "../event.ts";
import { methodOf } from "../event.ts";

/** Where an event travels inside a standard MCP notification. */
export const EVENT_META_KEY = "dev.tidings/event";
/** Where an event's cursor travels. */
export const CURSOR_META_KEY = "dev.tidings/cursor";

export interface WireNotification {
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
}

/**
 * @param cursor - The event's position in its owner's log; absent for events that have none.
 */
export function toNotification(event: TidingsEvent, cursor?: string): WireNotification {
  const method = methodOf(event.type);
  const position = cursor === undefined ? {} : { [CURSOR_META_KEY]: cursor };
  const _meta = { [EVENT_META_KEY]: event, ...position };
  switch (event.type) {
    case "resource.updated":
      return { method, params: { uri: event.resourceId, _meta } };
    case "resource.list_changed":
      return { method, params: { _meta } };
    case "system.log": {
      const { level, source, message } = event as Extract<TidingsEvent, { type: "system.log" }>;
      return { method, params: { level, logger: source, data: message, _meta } };
    }
    default:
      return { method, params: toFlat(event, cursor) };
  }
}

/** Flat `params`: the event itself, with its cursor under `_meta` when there is one. */
export function toFlat(event: TidingsEvent, cursor?: string): Readonly<Record<string, unknown>> {
  return cursor === undefined ? { ...event } : { ...event, _meta: { [CURSOR_META_KEY]: cursor } };
}
