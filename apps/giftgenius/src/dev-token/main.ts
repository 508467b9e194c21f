/**
 * `npm run dev-token -- --sub alice`: a token for trying the server out as one person or several, without an authorization
 * server. The key pair is made once; the token goes to stdout, everything else to stderr.
 */
import { parseArgs } from "node:util";
import { DEV_AUDIENCE, DEV_ISSUER, openDevKeys, signDevToken } from "./dev-keys.ts";

const USAGE = `Usage: npm run dev-token -- [--sub NAME] [--minutes N] [--folder PATH]

  --sub NAME      whom the token is for; default alice
  --minutes N     how long it is good; default 480
  --folder PATH   where the key pair is kept; default data/dev-keys
`;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      sub: { type: "string", default: "alice" },
      minutes: { type: "string", default: "480" },
      folder: { type: "string", default: "data/dev-keys" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return void process.stdout.write(USAGE);
  const minutes = Number(values.minutes);
  if (!(minutes > 0 && minutes <= 525_600))
    throw new Error("--minutes must be a number above 0, at most 525600.");
  if (values.sub === "") throw new Error("--sub must name somebody.");
  const keys = await openDevKeys(values.folder);
  const token = signDevToken(keys, values.sub, minutes * 60);
  process.stderr.write(
    `A token for ${values.sub}, good for ${minutes} minutes; for development only.

Start the server with:

  TIDINGS_AUTH_ISSUER=${DEV_ISSUER} TIDINGS_AUTH_AUDIENCE=${DEV_AUDIENCE} TIDINGS_AUTH_JWKS=${quote(keys.jwksPath)} npm start

Then open http://127.0.0.1:3000/#token=TOKEN, or send it as Authorization: Bearer TOKEN:

`,
  );
  process.stdout.write(`${token}\n`);
}

function quote(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
  process.exitCode = 2;
});
