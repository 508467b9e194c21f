/** A program as a user writes it: a worker on a store, in a process of its own, until its parent goes. */
import { createTidings } from "tidings";
import * as jobs from "./jobs.ts";

const [store, leaseMs] = process.argv.slice(2);
const tidings = await createTidings({
  store: String(store),
  jobs: Object.values(jobs),
  leaseMs: Number(leaseMs),
});
process.on("SIGTERM", () => void tidings.close().then(() => process.exit(0)));
process.on("disconnect", () => process.exit(0));
// Blocked by a handler, it could not go on counting.
let turns = 0;
setInterval(() => {
  turns += 1;
  process.send?.({ turns });
}, 20);
