/**
 * Compares the public surface of each entry with the reports in `packages/tidings/api/`, so that nobody changes it
 * without seeing it; with `--local` it writes them. Reads the built declarations.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Extractor, ExtractorConfig, ExtractorLogLevel } from "@microsoft/api-extractor";
import { entries, packageFolder } from "./entries.ts";

const localBuild = process.argv.includes("--local");
const reports = join(packageFolder, "api");
const scratch = await mkdtemp(join(tmpdir(), "tidings-api-"));
await mkdir(reports, { recursive: true });

try {
  for (const { name, specifier, types } of await entries()) {
    const changed = extract(name, types);
    if (!changed) console.log(`${specifier}: packages/tidings/api/${name}.api.md is what is exported.`);
    else if (localBuild) console.log(`${specifier}: packages/tidings/api/${name}.api.md was written anew.`);
    else {
      console.error(`${specifier}: the public surface differs from packages/tidings/api/${name}.api.md.`);
      process.exitCode = 1;
    }
  }
  if (process.exitCode === 1) {
    console.error("If the change is meant, run `npm run api -- --local` and commit what it writes.");
  }
} finally {
  await rm(scratch, { recursive: true, force: true });
}

function extract(name: string, types: string): boolean {
  const config = ExtractorConfig.prepare({
    configObjectFullPath: join(packageFolder, "api-extractor.json"),
    packageJsonFullPath: join(packageFolder, "package.json"),
    configObject: {
      projectFolder: packageFolder,
      mainEntryPointFilePath: join(packageFolder, types),
      compiler: {
        overrideTsconfig: {
          compilerOptions: {
            target: "es2022",
            module: "nodenext",
            moduleResolution: "nodenext",
            lib: ["es2023", "dom", "dom.iterable"],
            types: ["node"],
            strict: true,
            skipLibCheck: true,
          },
          files: [types],
        },
      },
      apiReport: {
        enabled: true,
        reportFileName: `${name}.api.md`,
        reportFolder: reports,
        reportTempFolder: scratch,
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      newlineKind: "lf",
      messages: {
        compilerMessageReporting: { default: { logLevel: ExtractorLogLevel.Warning } },
        extractorMessageReporting: {
          default: { logLevel: ExtractorLogLevel.Warning, addToApiReportFile: true },
          // There is one release stage, and it needs no tag.
          "ae-missing-release-tag": { logLevel: ExtractorLogLevel.None },
          // A type that a signature mentions and an entry does not export can be inferred; the report shows which.
          "ae-forgotten-export": { logLevel: ExtractorLogLevel.None },
          "ae-unresolved-link": { logLevel: ExtractorLogLevel.None },
        },
        tsdocMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
      },
    },
  });
  const result = Extractor.invoke(config, {
    localBuild,
    messageCallback(message) {
      if (message.logLevel === ExtractorLogLevel.Info || message.logLevel === ExtractorLogLevel.Verbose) {
        message.handled = true;
      }
      // Said in our own words below.
      if (message.messageId === "console-api-report-not-copied") message.handled = true;
    },
  });
  if (result.errorCount > 0) throw new Error(`The declarations of ${types} could not be read.`);
  return result.apiReportChanged;
}
