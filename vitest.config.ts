import { defineConfig } from "vitest/config";

// CI asks for a report to count from; the command that people and CI type stays the same: `npm test`.
const report = process.env.TIDINGS_TEST_REPORT;

export default defineConfig({
  resolve: { conditions: ["@tidings/source"] },
  ssr: { resolve: { conditions: ["@tidings/source"] } },
  test: {
    include: ["packages/*/test/**/*.test.ts", "apps/*/test/**/*.test.ts", "examples/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    pool: "forks",
    reporters: report === undefined ? ["default"] : ["default", ["json", { outputFile: report }]],
  },
});
