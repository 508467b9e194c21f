/** `npm start`: serves GiftGenius over HTTP, or over stdio with `--stdio`. */
import { TidingsError } from "tidings";
import { serveTidingsStdio } from "tidings/mcp";
import { openGiftGenius } from "./app.ts";
import { readConfig } from "./config.ts";
import { serveHttp } from "./http.ts";

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const stdio = process.argv.includes("--stdio");
  const app = await openGiftGenius(config);
  const front = stdio
    ? serveTidingsStdio(app.tidings, () => app.createServer(undefined))
    : await serveHttp(app, config).catch(async (error: unknown) => {
        await app.close();
        throw error;
      });
  let stopping = false;
  const stop = (): void => {
    if (stopping) return;
    stopping = true;
    front
      .close()
      .then(() => app.close())
      .then(
        () => process.exit(0),
        (error: unknown) => fail(error),
      );
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  if ("url" in front) {
    process.stdout.write(
      `GiftGenius is at ${front.url}/ (MCP at ${front.url}/mcp), store: ${config.store}\n`,
    );
  } else {
    void front.closed.then(stop);
  }
}

function fail(error: unknown): void {
  const sentence =
    error instanceof TidingsError
      ? [error.message, error.hint].filter((part) => part !== undefined).join(" ")
      : `GiftGenius could not start: ${error instanceof Error ? error.message : String(error)}`;
  process.stderr.write(`${sentence}\n`);
  process.exit(1);
}

main().catch(fail);
