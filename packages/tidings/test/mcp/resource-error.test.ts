import { ProtocolError } from "@modelcontextprotocol/server";
import { toResourceError } from "tidings/mcp";
import { expect, it, vi } from "vitest";
import { TidingsError } from "../../src/model/error.ts";

const URI = "resource:gifts:job_1";

it("a resource of the application's own that meets a fault of the store tells the operator, and not the client", () => {
  const told: unknown[] = [];
  const fault = new TidingsError("STORE_FAILED", 'The store "/srv/jobs.db" failed.');
  const answer = toResourceError(fault, URI, (error) => told.push(error));
  expect(told).toEqual([fault]);
  expect(answer.data).toMatchObject({ code: "STORE_FAILED" });
  expect(JSON.stringify([answer.message, answer.data])).not.toContain("/srv");
});

it("tells the operator on stderr when nobody is named", () => {
  const written: string[] = [];
  const write = vi
    .spyOn(process.stderr, "write")
    .mockImplementation((text) => written.push(String(text)) > 0);
  toResourceError(new Error("The feed is gone."), URI);
  write.mockRestore();
  expect(JSON.parse(written.join(""))).toMatchObject({ level: "error", code: "INTERNAL" });
});

it("says nothing to the operator of what the client is told in full", () => {
  const told: unknown[] = [];
  const tell = (error: unknown) => void told.push(error);
  toResourceError(new TidingsError("JOB_NOT_FOUND", "There is no job job_1."), URI, tell);
  toResourceError(new ProtocolError(-32602, "No."), URI, tell);
  expect(told).toEqual([]);
});
