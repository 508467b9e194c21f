/**
 * Whether this process exists for one isolated attempt. It loads the module that defines the job, and such a module may
 * go on to serve: in this process `createTidings` never returns, so that nothing behind it happens.
 */
/** As much of a definition as is needed to recognise it. */
export interface Defined {
  readonly type: string;
}

interface Role {
  readonly jobType: string;
  readonly found: (definition: Defined) => void;
  /** The module asked for a tidings: it defines no more jobs. */
  readonly parked: () => void;
}

let role: Role | undefined;
let definition: Defined | undefined;

export function takeRole(taken: Role): void {
  role = taken;
}

/** Every definition passes here. */
export function noteDefinition(defined: Defined): void {
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
