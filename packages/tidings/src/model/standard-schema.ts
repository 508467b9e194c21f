/**
 * The little that Tidings needs of Standard Schema (https://standardschema.dev) and of its JSON Schema extension:
 * enough for zod 4, valibot and arktype to describe inputs and payloads without Tidings depending on any of them.
 */
import { TidingsError } from "./error.ts";

export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly jsonSchema?: {
      readonly input: (options: { readonly target: "draft-2020-12" }) => Record<string, unknown>;
      readonly output: (options: { readonly target: "draft-2020-12" }) => Record<string, unknown>;
    };
  };
}

export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };

export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

export type InputOf<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["input"];
export type OutputOf<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["output"];

/**
 * Runs a schema. `problem` is one line for people, naming the fields.
 *
 * @throws TidingsError BAD_DEFINITION when the schema validates asynchronously.
 */
export function validate<S extends StandardSchema>(
  schema: S,
  value: unknown,
  of: string,
):
  | { readonly value: OutputOf<S>; readonly problem?: undefined }
  | { readonly value?: undefined; readonly problem: string } {
  const result = schema["~standard"].validate(value);
  if (result instanceof Promise) {
    throw new TidingsError(
      "BAD_DEFINITION",
      `The schema of "${of}" validates asynchronously; only synchronous schemas work here.`,
    );
  }
  if (result.issues === undefined) return { value: result.value as OutputOf<S> };
  return { problem: result.issues.map(describe).join("; ") };
}

/** JSON Schema 2020-12 of what goes in or comes out; undefined when the library does not offer it. */
export function jsonSchemaOf(
  schema: StandardSchema,
  side: "input" | "output",
): Record<string, unknown> | undefined {
  try {
    return schema["~standard"].jsonSchema?.[side]({ target: "draft-2020-12" });
  } catch {
    // A schema with a transform has no JSON Schema for its output; validation itself is unaffected.
    return undefined;
  }
}

function describe(issue: StandardIssue): string {
  const path = (issue.path ?? []).map((part) => String(typeof part === "object" ? part.key : part)).join(".");
  return path === "" ? issue.message : `${path}: ${issue.message}`;
}
