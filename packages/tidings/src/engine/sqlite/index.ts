export { createSqliteEngine, type SqliteOptions } from "./engine.ts";
