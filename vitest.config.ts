import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { conditions: ["@tidings/source"] },
  ssr: { resolve: { conditions: ["@tidings/source"] } },
  test: {
    include: ["packages/*/test/**/*.test.ts", "apps/*/test/**/*.test.ts", "examples/**/*.test.ts"],
    testTimeout: 30_000,
    pool: "forks",
  },
});
