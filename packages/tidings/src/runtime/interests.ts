/** Who wants which events of one owner's log. */
import type { EventFilter } from "../engine/engine.ts";
import { isEverything } from "../engine/event-filter.ts";
import type { TidingsEvent } from "../model/event.ts";

/** Members by what they want: an event touches only those whom it concerns. */
export interface Interests<Member> {
  readonly size: number;
  add(member: Member): void;
  delete(member: Member): void;
  all(): readonly Member[];
  /** Calls back for each member that wants the event; twice for one that wants it for two reasons. */
  forEach(event: TidingsEvent, call: (member: Member) => void): void;
}

export function createInterests<Member extends { readonly filter: EventFilter }>(): Interests<Member> {
  const all = new Set<Member>();
  const everything = new Set<Member>();
  const byJob = new Map<string, Set<Member>>();
  const byCorrelation = new Map<string, Set<Member>>();
  const byResource = new Map<string, Set<Member>>();

  function change(
    { filter }: Member,
    call: (group: Set<Member>, map?: Map<string, Set<Member>>, key?: string) => void,
  ) {
    const { jobIds, correlationId, resourceIds } = filter;
    if (isEverything(filter)) call(everything);
    const each = (map: Map<string, Set<Member>>, key: string) => {
      let group = map.get(key);
      if (group === undefined) {
        group = new Set();
        map.set(key, group);
      }
      call(group, map, key);
    };
    for (const jobId of jobIds ?? []) each(byJob, jobId);
    if (correlationId !== undefined) each(byCorrelation, correlationId);
    for (const resourceId of resourceIds ?? []) each(byResource, resourceId);
  }

  return {
    get size() {
      return all.size;
    },
    add(member) {
      all.add(member);
      change(member, (group) => group.add(member));
    },
    delete(member) {
      if (!all.delete(member)) return;
      change(member, (group, map, key) => {
        group.delete(member);
        if (group.size === 0 && key !== undefined) map?.delete(key);
      });
    },
    all: () => [...all],
    forEach({ jobId, correlationId, resourceId }, call) {
      for (const member of everything) call(member);
      if (jobId !== undefined) byJob.get(jobId)?.forEach(call);
      if (correlationId !== undefined) byCorrelation.get(correlationId)?.forEach(call);
      if (resourceId !== undefined) byResource.get(resourceId)?.forEach(call);
    },
  };
}
