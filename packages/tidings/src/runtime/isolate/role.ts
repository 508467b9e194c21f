/**
 * Whether this process exists for one isolated attempt. It loads the module that defines the job, and such a module may
 * go on to serve: in this process `createTidings` never returns, so that nothing behind it happens.
 */
import type { AnyJobDefinition } from "../define-job.ts";

interface Role {
  readonly jobType: string;
  readonly found: (definition: AnyJobDefinition) => void;
  /** The module asked for a tidings: it defines no more jobs. */
  readonly parked: () => void;
}

let role: Role | undefined;
let definition: AnyJobDefinition | undefined;

export function takeRole(taken: Role): void {
  role = taken;
}

/** Every definition passes here. */
export function noteDefinition(defined: AnyJobDefinition): void {
  if (defined.type === role?.jobType) definition ??= defined;
}

/** A promise that never settles in the process of an isolated attempt; undefined in any other. */
export function park(): Promise<never> | undefined {
  if (role === undefined) return undefined;
  settleDefinition();
  role.parked();
  return new Promise<never>(() => {});
}

/** The module was loaded, or is parked: what it defines is known. */
export function settleDefinition(): void {
  if (definition !== undefined) role?.found(definition);
}
