/**
 * The one source of every event type: a small, typed subset of JSON Schema 2020-12.
 *
 * TypeScript types are inferred from these objects (`Infer`), the published files in `packages/tidings/schema/`
 * are these objects written out, and `findProblem` interprets them directly. Runtime, types and published schema
 * therefore cannot drift apart, and the browser needs no validation library.
 */
export interface TextSchema {
  readonly type: "string";
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: string;
  readonly const?: string;
  readonly enum?: readonly string[];
  readonly description?: string;
}

export interface NumberSchema {
  readonly type: "number" | "integer";
  readonly minimum?: number;
  readonly maximum?: number;
  readonly description?: string;
}

export interface BooleanSchema {
  readonly type: "boolean";
  readonly description?: string;
}

export interface ObjectSchema<Required extends Fields = Fields, Optional extends Fields = Fields> {
  readonly type: "object";
  readonly properties: Required & Optional;
  readonly required: readonly string[];
  readonly description?: string;
  /** Exists only in types, so that `Infer` can tell required from optional fields. */
  readonly "~fields"?: readonly [Required, Optional];
}

export interface AnyOfSchema {
  readonly anyOf: readonly Schema[];
}

export type Schema = TextSchema | NumberSchema | BooleanSchema | ObjectSchema | AnyOfSchema;
// biome-ignore lint/complexity/noBannedTypes: the empty record is the honest default for "no fields"
export type Fields = { readonly [name: string]: Schema } | {};

/** The TypeScript type of the values a schema accepts. */
export type Infer<S> = S extends { readonly enum: readonly (infer Member)[] }
  ? Member
  : S extends { readonly const: infer Value }
    ? Value
    : S extends { readonly type: "string" }
      ? string
      : S extends { readonly type: "number" | "integer" }
        ? number
        : S extends { readonly type: "boolean" }
          ? boolean
          : S extends ObjectSchema<infer Required, infer Optional>
            ? Simplify<
                { readonly [Name in keyof Required]: Infer<Required[Name]> } & {
                  readonly [Name in keyof Optional]?: Infer<Optional[Name]>;
                }
              >
            : unknown;

export type Simplify<T> = { [Name in keyof T]: T[Name] } & {};

/** An object schema: the first record's fields are required, the second's optional. Unknown fields are allowed. */
export function object<const Required extends Fields, const Optional extends Fields = Record<never, never>>(
  required: Required,
  optional?: Optional,
): ObjectSchema<Required, Optional> {
  return {
    type: "object",
    properties: { ...required, ...(optional ?? ({} as Optional)) },
    required: Object.keys(required),
  };
}

const PATTERNS = new Map<string, RegExp>();

function matches(pattern: string, text: string): boolean {
  let compiled = PATTERNS.get(pattern);
  if (compiled === undefined) {
    compiled = new RegExp(pattern, "u");
    PATTERNS.set(pattern, compiled);
  }
  return compiled.test(text);
}

/** JSON Schema counts characters, and a character takes one or two of JavaScript's units: most texts need no counting. */
function isShorterThan(text: string, characters: number): boolean {
  return text.length < characters * 2 && lengthOf(text) < characters;
}

function isLongerThan(text: string, characters: number): boolean {
  return text.length > characters && lengthOf(text) > characters;
}

function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const FIELDS = new WeakMap<ObjectSchema, readonly (readonly [string, Schema])[]>();

/** Listed once for each schema: every event that is read or written asks for them. */
function fieldsOf(schema: ObjectSchema): readonly (readonly [string, Schema])[] {
  let fields = FIELDS.get(schema);
  if (fields === undefined) {
    fields = Object.entries<Schema>(schema.properties);
    FIELDS.set(schema, fields);
  }
  return fields;
}

/**
 * Says what is wrong with `value`, as one sentence without a full stop that names the field, or returns undefined
 * when the schema accepts it. Own properties only: a name on a prototype never counts as a field.
 */
export function findProblem(schema: Schema, value: unknown, path = "params"): string | undefined {
  if ("anyOf" in schema) {
    let first: string | undefined;
    for (const option of schema.anyOf) {
      const problem = findProblem(option, value, path);
      if (problem === undefined) return undefined;
      first ??= problem;
    }
    return first;
  }
  switch (schema.type) {
    case "string":
      return findTextProblem(schema, value, path);
    case "number":
    case "integer":
      return findNumberProblem(schema, value, path);
    case "boolean":
      return typeof value === "boolean" ? undefined : `${path} must be true or false`;
    case "object": {
      if (!isRecord(value)) return `${path} must be an object`;
      for (const name of schema.required) {
        if (!Object.hasOwn(value, name) || value[name] === undefined) return `${path}.${name} is missing`;
      }
      for (const [name, field] of fieldsOf(schema)) {
        if (!Object.hasOwn(value, name) || value[name] === undefined) continue;
        const problem = findProblem(field, value[name], `${path}.${name}`);
        if (problem !== undefined) return problem;
      }
      return undefined;
    }
  }
}

function findTextProblem(schema: TextSchema, value: unknown, path: string): string | undefined {
  if (typeof value !== "string") return `${path} must be a text`;
  if (schema.const !== undefined && value !== schema.const) return `${path} must be "${schema.const}"`;
  if (schema.enum !== undefined && !schema.enum.includes(value)) {
    return `${path} must be one of ${schema.enum.join(", ")}`;
  }
  if (schema.minLength !== undefined && isShorterThan(value, schema.minLength))
    return `${path} must not be empty`;
  if (schema.maxLength !== undefined && isLongerThan(value, schema.maxLength)) {
    return `${path} must have at most ${schema.maxLength} characters`;
  }
  if (schema.pattern !== undefined && !matches(schema.pattern, value)) {
    return schema.format === "date-time"
      ? `${path} must be a time like 2026-12-01T10:15:00.000Z (RFC 3339, UTC)`
      : `${path} must match ${schema.pattern}`;
  }
  return undefined;
}

function findNumberProblem(schema: NumberSchema, value: unknown, path: string): string | undefined {
  if (typeof value !== "number" || !Number.isFinite(value)) return `${path} must be a finite number`;
  if (schema.type === "integer" && !Number.isInteger(value)) return `${path} must be a whole number`;
  if (schema.minimum !== undefined && value < schema.minimum)
    return `${path} must be at least ${schema.minimum}`;
  if (schema.maximum !== undefined && value > schema.maximum)
    return `${path} must be at most ${schema.maximum}`;
  return undefined;
}
