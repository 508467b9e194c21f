/** Whose jobs a request is about. */
import type { AuthInfo } from "@modelcontextprotocol/server";
import { TidingsError } from "../../model/error.ts";

/** Names the owner behind a request. Called for every request; two people must never get the same name. */
export type OwnerOf = (who: { readonly authInfo?: AuthInfo | undefined }) => string;

/** The owner of everything on a server without authentication. */
export const LOCAL_OWNER = "local";

/**
 * The subject of the verified token (`authInfo.extra.sub`), else its client; `local` without authentication. A token
 * that names its issuer (`authInfo.extra.iss`) belongs to `["issuer","subject"]`, written as JSON: a subject is unique
 * only within its issuer. A bare subject that would read as one of the other forms is `[null,"subject"]`.
 *
 * @throws TidingsError INTERNAL when a token names nobody: such requests must not share an owner.
 */
export const defaultOwner: OwnerOf = ({ authInfo }) => {
  if (authInfo === undefined) return LOCAL_OWNER;
  const issuer = authInfo.extra?.iss;
  const subject = authInfo.extra?.sub ?? authInfo.clientId;
  if (typeof subject !== "string" || subject === "") {
    throw new TidingsError("INTERNAL", "The request's token names neither a subject nor a client.", {
      hint: "Set authInfo.clientId or authInfo.extra.sub when the token is verified, or pass `owner`.",
      retryable: false,
    });
  }
  if (typeof issuer === "string") return JSON.stringify([issuer, subject]);
  const isTaken = subject === LOCAL_OWNER || subject.startsWith("[");
  return isTaken ? JSON.stringify([null, subject]) : subject;
};
