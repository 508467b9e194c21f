/**
 * Prints `<passed> <failed>` of a vitest report. A file that failed without a failed test (it could not be loaded, or
 * broke outside its tests) counts as one failure.
 */
import { readFileSync } from "node:fs";

const report = read(process.argv[2]);
let passed = 0;
let failed = 0;
for (const file of report.testResults) {
  const statuses = file.assertionResults.map((test) => test.status);
  const brokenTests = statuses.filter((status) => status === "failed").length;
  passed += statuses.filter((status) => status === "passed").length;
  failed += brokenTests === 0 && file.status === "failed" ? 1 : brokenTests;
}
if (failed === 0 && report.success !== true) failed = 1;
console.log(`${passed} ${failed}`);

/** A run that was cut short wrote no report: that is a failure too. */
function read(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    console.error("The test run left no report; it counts as one failure.");
    return { testResults: [], success: false };
  }
}
