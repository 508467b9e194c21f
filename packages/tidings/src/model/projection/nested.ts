/** The nested spelling: the envelope's fields in `params`, the payload's in `params.payload`. */

import { payloadOf } from "../define-event.ts";
import type { TidingsEvent } from "../event.ts";
import { ENVELOPE_FIELDS, methodOf } from "../event.ts";
import type { WireNotification } from "./notification.ts";

export function toNested(event: TidingsEvent): WireNotification {
  const envelope = Object.fromEntries(
    Object.entries(event).filter(([name]) => Object.hasOwn(ENVELOPE_FIELDS, name)),
  );
  return { method: methodOf(event.type), params: { ...envelope, payload: payloadOf(event) } };
}
