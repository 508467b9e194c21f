/** Takes files in as a server does, whole ones or broken ones, and notes each outcome: traced by upload-sync.test.ts. */
import { appendFileSync } from "node:fs";
import { openUploads } from "../../src/uploads.ts";

const [, , home = "", outcomes = "", kind] = process.argv;
const uploads = await openUploads(
  home,
  () => {
    throw new Error("Nothing is asked of the store here.");
  },
  { retentionMs: 3_600_000 },
);

async function* contentOf(n: number): AsyncGenerator<Uint8Array> {
  yield Buffer.from(`file ${n}`);
  if (kind === "broken") throw new Error("The connection broke.");
}

for (let n = 0; n < 10; n += 1) {
  const outcome = await uploads.receive("ann", contentOf(n)).then(
    ({ sha256 }) => `ack ${sha256}`,
    ({ message }: Error) => message,
  );
  appendFileSync(outcomes, `${outcome}\n`);
}
await uploads.close();
