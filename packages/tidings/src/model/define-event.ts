/** Event types that a server adds to the catalogue. */
import { TidingsError } from "./error.ts";
import type { CustomDraft, CustomEvent } from "./event.ts";
import { isCatalogueType, methodOf, RESERVED_FIELDS, TYPE_PATTERN } from "./event.ts";
import { isRecord } from "./schema.ts";
import type { OutputOf, StandardSchema } from "./standard-schema.ts";
import { jsonSchemaOf, validate } from "./standard-schema.ts";

/** Namespaces that belong to the closed catalogue and to MCP. */
const RESERVED_NAMESPACES = [
  "job",
  "resource",
  "resources",
  "system",
  "message",
  "tools",
  "prompts",
  "tasks",
  "events",
];

/** A type of your own. Call it with a payload to get a draft for `emit` or `publish`. */
export interface EventDefinition<Type extends string = string, Payload = unknown> {
  /** @throws TidingsError BAD_EVENT when the payload does not fit its schema or uses a name of the envelope. */
  (payload: Payload): CustomDraft;
  readonly type: Type;
  /** The JSON-RPC method: `notifications/` and the words of the type joined by slashes. */
  readonly method: string;
  /** JSON Schema 2020-12 of the payload; undefined when the schema library cannot say. */
  readonly payloadSchema: Readonly<Record<string, unknown>> | undefined;
  /** What is wrong with a received event's payload, or undefined. */
  findProblem(event: CustomEvent): string | undefined;
}

/** The typed event that a definition describes. */
export type EventFrom<Definition> =
  Definition extends EventDefinition<infer Type, infer Payload>
    ? Omit<CustomEvent, keyof Payload | "type"> & { readonly type: Type } & Readonly<Payload>
    : never;

/**
 * Adds an event type: `defineEvent("order.paid", { payload: z.object({ paymentId: z.string() }) })`.
 *
 * @param type - Lower-case words joined by dots, at least two; not in a namespace of the catalogue.
 * @param options.payload - Any synchronous Standard Schema (zod 4, valibot, arktype) of an object that uses no name of
 *   the envelope.
 * @throws TidingsError BAD_DEFINITION
 */
export function defineEvent<Type extends string, S extends StandardSchema>(
  type: Type,
  options: { readonly payload: S },
): EventDefinition<Type, OutputOf<S>> {
  const namespace = type.split(".")[0] ?? "";
  if (!TYPE_PATTERN.test(type) || isCatalogueType(type) || RESERVED_NAMESPACES.includes(namespace)) {
    throw new TidingsError("BAD_DEFINITION", `"${type}" cannot be the name of an event type.`, {
      hint: `Use lower-case words joined by dots, such as order.paid, outside ${RESERVED_NAMESPACES.join(", ")}.`,
    });
  }
  const payloadSchema = jsonSchemaOf(options.payload, "output");
  const properties = payloadSchema?.properties;
  const taken = isRecord(properties) ? RESERVED_FIELDS.filter((name) => Object.hasOwn(properties, name)) : [];
  if (taken.length > 0) {
    throw new TidingsError(
      "BAD_DEFINITION",
      `The payload of "${type}" uses ${taken.join(", ")}, which the envelope needs.`,
      {
        hint: "Rename these fields.",
      },
    );
  }
  const findPayloadProblem = (payload: unknown): string | undefined => {
    const outcome = validate(options.payload, payload, type);
    return outcome.problem;
  };
  const draft = (payload: OutputOf<S>): CustomDraft => {
    const outcome = validate(options.payload, payload, type);
    const problem = outcome.problem ?? findReservedName(outcome.value);
    if (problem !== undefined)
      throw new TidingsError("BAD_EVENT", `The event "${type}" was not sent: ${problem}.`);
    return { ...(outcome.value as Record<string, unknown>), type, "~custom": true } as unknown as CustomDraft;
  };
  return Object.assign(draft, {
    type,
    method: methodOf(type),
    payloadSchema,
    findProblem: (event: CustomEvent) => findPayloadProblem(payloadOf(event)),
  });
}

/** The fields of an event that are not the envelope's. */
export function payloadOf(event: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(event).filter(([name]) => !RESERVED_FIELDS.includes(name)));
}

function findReservedName(payload: unknown): string | undefined {
  if (!isRecord(payload)) return "its payload must be an object";
  const taken = RESERVED_FIELDS.filter((name) => Object.hasOwn(payload, name));
  return taken.length === 0 ? undefined : `its payload uses ${taken.join(", ")}, which the envelope needs`;
}
