/** Whatever a handler throws, its job ends with a readable and bounded error. */

import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { defineJob, PermanentError, RetryAfter, type StandardSchema, TidingsError } from "tidings";
import { describe, expect, test } from "vitest";
import { askedDelayOf, describeFailure } from "../../src/runtime/failure.ts";
import { open, storyOf } from "./story.ts";

const no = (): never => {
  throw new Error("no");
};
const failing = { get: no, has: no, getPrototypeOf: no, ownKeys: no, getOwnPropertyDescriptor: no };
const revoked = (() => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
})();
const circular = new Error("outer") as Error & { cause?: unknown };
circular.cause = circular;
const nestedInItself = new AggregateError([], "all of them");
nestedInItself.errors.push(nestedInItself, "two", new Error("three"), 4, 5);

const HOSTILE: readonly (readonly [string, unknown, unknown])[] = [
  ["null", null, "The handler threw null."],
  ["undefined", undefined, "The handler threw undefined."],
  ["an empty text", "", "The handler threw an empty text."],
  ["a number", 42, "The handler threw 42."],
  ["a BigInt", 10n, "The handler threw 10."],
  ["a symbol", Symbol("s"), "The handler threw Symbol(s)."],
  ["a function", () => "secret source", "The handler threw a function."],
  ["a text with NUL and line breaks", "a\u0000b\nc\u2028d", "The handler threw a b c d."],
  ["a message of 100 MB", new Error("x".repeat(100_000_000)), `${"x".repeat(1_999)}…`],
  ["half a character", new Error("\ud83d"), "\ufffd"],
  ["a character cut in half", new Error("🎁".repeat(2_000)), expect.stringMatching(/^(🎁){999}\ufffd?…$/u)],
  ["an error without a message", new TypeError(), "TypeError"],
  [
    "an error without anything",
    Object.assign(new Error(), { name: "" }),
    expect.stringContaining("without a message"),
  ],
  ["an error that is its own cause", circular, "outer"],
  [
    "many errors in one, itself among them",
    nestedInItself,
    "all of them (all of them; The handler threw two.; three and 2 more)",
  ],
  ["a DOMException", new DOMException("it was aborted", "AbortError"), "it was aborted"],
  ["an error of another realm", runInNewContext("new RangeError('elsewhere')"), "elsewhere"],
  ["an object without a prototype", Object.create(null), "The handler threw an object that is no error."],
  ["a toString that throws", { toString: no }, "The handler threw an object that is no error."],
  [
    "a message that throws",
    Object.defineProperty(new Error(), "message", { get: no }),
    expect.stringContaining("cannot be read"),
  ],
  [
    "a message that is no text",
    Object.assign(new Error(), { message: { toString: no } }),
    expect.stringContaining("cannot be read"),
  ],
  ["a proxy that throws at everything", new Proxy({}, failing), expect.stringContaining("cannot be read")],
  [
    "a proxy of an error that throws at everything",
    new Proxy(new Error("x"), failing),
    expect.stringContaining("cannot be read"),
  ],
  ["a revoked proxy", revoked, expect.stringContaining("cannot be read")],
  [
    "an error of ours that lies about itself",
    Object.assign(new TidingsError("X", "y"), { toInfo: () => null }),
    expect.stringContaining("cannot be read"),
  ],
];

describe.each(HOSTILE)("a handler that throws %s", (_, thrown, message) => {
  test("fails its job readably", async () => {
    const input: StandardSchema = {
      "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }) },
    };
    const job = defineJob("odd", {
      input,
      attempts: 1,
      run() {
        throw thrown;
      },
    });
    const tidings = await open({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    expect((await storyOf(tidings, jobId)).at(-1)).toMatchObject({
      type: "job.failed",
      error: { code: "HANDLER_FAILED", message, retryable: true },
    });
  });
});

test("an error of the application keeps its code and hint, one line each, and its verdict", () => {
  const error = new PermanentError(`CODE\u0000${"Y".repeat(500)}`, "a\nb", { hint: "c\u0000d" });
  expect(describeFailure(error)).toEqual({
    code: expect.stringMatching(/^CODE Y{94}…$/),
    message: "a b",
    hint: "c d",
    retryable: false,
  });
  const odd = Object.assign(new PermanentError("", "\u0000", { hint: "\n" }), { retryable: "yes" });
  expect(describeFailure(odd)).toEqual({
    code: "HANDLER_FAILED",
    message: "The handler threw an error without a message.",
    retryable: false,
  });
});

test("a delay that was asked for is a number of milliseconds, whatever was made of it", () => {
  expect(askedDelayOf(new RetryAfter(250, "later"))).toBe(250);
  for (const delayMs of [Number.NaN, -1, Number.POSITIVE_INFINITY, "soon"]) {
    expect(askedDelayOf(Object.assign(new RetryAfter(1, "later"), { delayMs }))).toBe(0);
  }
  for (const thrown of [undefined, new Error("x"), new Proxy(new RetryAfter(1, "x"), failing), revoked]) {
    expect(askedDelayOf(thrown)).toBeUndefined();
  }
});

test("anything at all becomes one bounded line with a code and a verdict", () => {
  const anything = fc.anything({
    withBigInt: true,
    withDate: true,
    withMap: true,
    withNullPrototype: true,
    withObjectString: true,
    withSet: true,
    withSparseArray: true,
    withTypedArray: true,
  });
  const errors = fc
    .record({ code: anything, message: anything, hint: anything, retryable: anything, errors: anything })
    .chain((fields) =>
      fc.constantFrom(
        () => Object.assign(new Error(), fields),
        () => Object.assign(new TidingsError("X", "x"), fields),
        () => Object.assign(new AggregateError([]), fields),
        () => Object.assign(new RetryAfter(1, "x"), fields),
      ),
    )
    .map((make) => make());
  fc.assert(
    fc.property(fc.oneof(anything, errors), (thrown) => {
      const info = describeFailure(thrown);
      expect(Object.keys(info).every((name) => ["code", "message", "hint", "retryable"].includes(name))).toBe(
        true,
      );
      expect(typeof info.retryable).toBe("boolean");
      for (const [text, longest] of [
        [info.code, 100],
        [info.message, 2_000],
        [info.hint ?? "-", 2_000],
      ] as const) {
        expect(text.length).toBeGreaterThan(0);
        expect(text.length).toBeLessThanOrEqual(longest);
        expect(text).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/);
        expect(text.isWellFormed()).toBe(true);
      }
    }),
    { numRuns: 2_000 },
  );
});
