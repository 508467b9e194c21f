/**
 * The one-way flow between rooms. An arrow means "may import":
 *
 *   model ◀── engine ◀── runtime ◀── mcp/server ◀── cli, apps
 *     ▲                                  │ mcp/wire (codecs) ──▶ model, client
 *     └────── client ◀── mcp/client ◀────┘          testing ──▶ runtime, engine
 */
const src = "^packages/tidings/src/";
const room = (...names) => `${src}(?:${names.join("|")})/`;

/** A room may import itself and the rooms below it. */
const allow = (name, rooms, why) => ({
  name: `${name.replaceAll("/", "-")}-imports-only-what-is-below`,
  comment: why,
  severity: "error",
  from: { path: room(name) },
  to: { path: src, pathNot: room(name, ...rooms) },
});

export default {
  forbidden: [
    {
      name: "no-cycles",
      comment: "Two files that need each other are one file, or need a third.",
      severity: "error",
      from: {},
      to: { circular: true },
    },
    allow("model", [], "The model is pure and stands alone."),
    allow("engine", ["model"], "Engines know the model and nothing else."),
    allow("client", ["model"], "The client knows the model and nothing else."),
    allow("runtime", ["engine", "model"], "The runtime drives an engine."),
    allow("testing", ["runtime", "engine", "model"], "What people test their own programs with."),
    allow("mcp/wire", ["model", "client"], "Codecs translate events; both sides use them."),
    allow("mcp/client", ["mcp/wire", "client", "model"], "A source over an MCP client, for browsers too."),
    {
      name: "mcp-server-imports-only-what-is-below",
      comment: "The server's bindings stand on the runtime; they never need a client.",
      severity: "error",
      from: { path: `${src}mcp/`, pathNot: room("mcp/client", "mcp/wire") },
      to: { path: src, pathNot: `${room("runtime", "engine", "model")}|${src}mcp/(?!client/)` },
    },
    {
      name: "browser-rooms-never-touch-node",
      comment: "model, client and mcp/client run in browsers.",
      severity: "error",
      from: { path: room("model", "client", "mcp/client", "mcp/wire") },
      to: { dependencyTypes: ["core"] },
    },
    {
      name: "the-model-has-no-dependency",
      severity: "error",
      from: { path: room("model", "client") },
      to: { path: "node_modules" },
    },
    {
      name: "nobody-imports-the-entry",
      comment: "index.ts is for users; inside the package, name the file that holds the thing.",
      severity: "error",
      from: { path: src, pathNot: `${src}index\\.ts$` },
      to: { path: `${src}index\\.ts$` },
    },
    {
      name: "nobody-imports-the-command-line",
      severity: "error",
      from: { pathNot: [room("cli"), "/test/"] },
      to: { path: room("cli") },
    },
    {
      name: "nobody-imports-test-code",
      severity: "error",
      from: { pathNot: ["/test/", "^bench/"] },
      to: { path: ["/test/", "\\.test\\.ts$"] },
    },
    {
      name: "apps-use-the-public-entries",
      comment: "What an application needs must be public.",
      severity: "error",
      from: { path: "^(?:apps|examples)/" },
      to: {
        path: src,
        pathNot: `${src}(?:index|(?:client|mcp|mcp/client|engine/sqlite|testing)/index)\\.ts$`,
      },
    },
    {
      name: "the-package-knows-no-application",
      severity: "error",
      from: { path: "^packages/" },
      to: { path: "^(?:apps|examples|bench)/" },
    },
    {
      name: "no-undeclared-dependency",
      severity: "error",
      from: { path: "^packages/[^/]+/src/" },
      to: {
        dependencyTypes: ["npm-no-pkg", "npm-unknown", "npm-dev"],
        pathNot: "@modelcontextprotocol/client",
      },
    },
    {
      name: "nothing-unresolved",
      severity: "error",
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    exclude: { path: "(?:^|/)dist/" },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    enhancedResolveOptions: {
      conditionNames: ["@tidings/source", "import", "types", "node", "default"],
      exportsFields: ["exports"],
      extensions: [".ts", ".js", ".mjs", ".json"],
    },
  },
};
