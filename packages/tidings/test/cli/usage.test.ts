/** What was typed wrongly is answered with a sentence, the nearest name and exit code 2. */
import { expect, test } from "vitest";
import { runCommand } from "./command.ts";

test.each([
  [["canel", "job"], 'There is no command "canel".', "Did you mean tidings cancel?"],
  [["inspect", "--statsu", "failed"], "tidings inspect has no option --statsu.", "Did you mean --status?"],
  [
    ["inspect", "--status", "odd", "--store", "memory:"],
    "A store in memory can be seen by its own process only.",
    "Ask its server: --url http://127.0.0.1:3000/mcp",
  ],
  [["cancel"], "tidings cancel needs the id of a job.", "tidings inspect lists them."],
  [
    ["cancel", "a", "b"],
    'tidings cancel does not know what "b" means.',
    "It is: tidings cancel JOB [--reason TEXT]",
  ],
  [
    ["inspect"],
    "It is not said which jobs are meant.",
    "Name a store by --store sqlite:PATH, or a server by --url.",
  ],
  [["inspect", "--store"], "--store needs a value.", "See tidings inspect --help."],
  [
    ["inspect", "--url", "nowhere"],
    '--url is "nowhere", but must be an address such as http://127.0.0.1:3000/mcp.',
    undefined,
  ],
  [
    ["inspect", "--url", "http://a/mcp", "--store", "sqlite:x"],
    "Name a store or a server, not both.",
    undefined,
  ],
  [
    ["prune", "--store", "sqlite:x"],
    "It is not said what may go.",
    "Say --older-than, --max-bytes, --compact-after or --keep-events.",
  ],
  [
    ["prune", "--older-than", "3x"],
    '--older-than is "3x", but must be a number with one of s, m, h, d, such as 30d.',
    undefined,
  ],
  [
    ["tail", "job", "--after", "x", "--from-start"],
    "--after and --from-start say two beginnings.",
    undefined,
  ],
])("%j", async (args, message, hint) => {
  const { code, stdout, stderr } = await runCommand(args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(JSON.parse(stderr)).toEqual({
    error: { code: "USAGE", message, ...(hint === undefined ? {} : { hint }) },
  });
});

test("--help lists the commands, and each has its own; --version is the package's", async () => {
  const { code, stdout } = await runCommand(["--help"]);
  expect(code).toBe(0);
  for (const verb of ["inspect", "tail", "cancel", "retry", "prune", "doctor", "check"]) {
    expect(stdout).toMatch(new RegExp(`^ {2}${verb} `, "m"));
    const own = await runCommand([verb, "--help"]);
    expect(own.code).toBe(0);
    expect(own.stdout).toContain(`tidings ${verb}`);
  }
  expect((await runCommand(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
}, 60_000);
