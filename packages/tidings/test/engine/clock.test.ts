import { describe, expect, test } from "vitest";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";
import { createManualClock, createSeededRandom } from "../../src/testing/index.ts";

describe("the system clock", () => {
  test("tells the time of the wall and never runs backwards", () => {
    expect(Math.abs(systemClock.now() - Date.now())).toBeLessThan(1_000);
    let before = systemClock.monotonic();
    for (let index = 0; index < 1_000; index += 1) {
      const now = systemClock.monotonic();
      expect(now).toBeGreaterThanOrEqual(before);
      before = now;
    }
  });

  test("calls back after the delay, and not when it is stopped", async () => {
    let stopped = false;
    const stop = systemClock.after(1, () => {
      stopped = true;
    });
    stop();
    const begun = systemClock.monotonic();
    const hold = setInterval(() => {}, 1_000);
    await new Promise<void>((resolve) => void systemClock.after(20, resolve));
    clearInterval(hold);
    expect(systemClock.monotonic() - begun).toBeGreaterThan(15);
    expect(stopped).toBe(false);
  });

  test("a delay longer than a timer can hold does not fire at once", async () => {
    let fired = false;
    const stop = systemClock.after(2 ** 31 + 5, () => {
      fired = true;
    });
    const hold = setInterval(() => {}, 1_000);
    await new Promise<void>((resolve) => void systemClock.after(10, resolve));
    clearInterval(hold);
    expect(fired).toBe(false);
    stop();
  });
});

test("random ids hold 128 bits in URL-safe letters and differ", () => {
  const ids = Array.from({ length: 1_000 }, () => systemRandom.id());
  for (const id of ids) expect(id).toMatch(/^[0-9A-Za-z_-]{22,}$/);
  expect(new Set(ids).size).toBe(1_000);
  for (let index = 0; index < 1_000; index += 1) {
    const fraction = systemRandom.fraction();
    expect(fraction >= 0 && fraction < 1).toBe(true);
  }
});

describe("the manual clock", () => {
  test("calls timers in the order in which they fall due, those set meanwhile too", () => {
    const clock = createManualClock();
    const begun = clock.monotonic();
    const calls: [string, number][] = [];
    const note = (name: string) => calls.push([name, clock.monotonic() - begun]);
    clock.after(30, () => note("c"));
    clock.after(10, () => {
      note("a");
      clock.after(10, () => note("b"));
    });
    const stop = clock.after(15, () => note("never"));
    stop();
    clock.advance(29);
    expect(calls).toEqual([
      ["a", 10],
      ["b", 20],
    ]);
    clock.advance(1);
    expect(calls.at(-1)).toEqual(["c", 30]);
  });

  test("a step moves the wall clock alone", () => {
    const clock = createManualClock({ now: 1_000, monotonic: 5 });
    clock.step(-500);
    expect([clock.now(), clock.monotonic()]).toEqual([500, 5]);
    clock.advance(10);
    expect([clock.now(), clock.monotonic()]).toEqual([510, 15]);
  });
});

test("the same seed gives the same randomness, another seed another", () => {
  const draw = (seed: number) => {
    const random = createSeededRandom(seed);
    return [random.id(), random.fraction(), random.id()];
  };
  expect(draw(1)).toEqual(draw(1));
  expect(draw(1)).not.toEqual(draw(2));
  expect(draw(1)[0]).toMatch(/^[0-9A-Za-z_-]{22}$/);
});
