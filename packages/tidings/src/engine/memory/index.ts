export { createMemoryEngine } from "./engine.ts";
