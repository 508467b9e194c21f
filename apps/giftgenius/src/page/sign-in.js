/**
 * The token that the page sends with all its requests, where the server asks for one: taken out of the address once
 * (`#token=…`) or typed in, and kept for this tab only.
 */
import { part, write } from "./element.js";

const TOKEN_KEY = "giftgenius-token";

/** Storage throws in frames without an origin: there the token lasts as long as the page. */
function stored() {
  try {
    return sessionStorage.getItem(TOKEN_KEY) ?? undefined;
  } catch {
    return undefined;
  }
}

function store(token) {
  try {
    sessionStorage.setItem(TOKEN_KEY, token);
  } catch {}
}

/** @param onChange - Called when the page begins or ends to wait for a token; `isWaiting` says which. */
export function createSignIn(onChange) {
  let token = stored();
  const signIn = {
    isWaiting: false,

    headers: () => (token === undefined ? {} : { authorization: `Bearer ${token}` }),

    /** Takes a token out of the address, so that it stays in no history and in no bookmark. */
    takeFromAddress() {
      const fields = new URLSearchParams(location.hash.slice(1));
      const given = fields.get("token");
      if (given === null) return;
      fields.delete("token");
      const rest = fields.size === 0 ? "" : `#${fields}`;
      history.replaceState(null, "", location.pathname + location.search + rest);
      use(given);
    },

    /** The server has refused: whatever was sent is good no longer. */
    ask() {
      const text =
        token === undefined
          ? "This server answers those who have an access token."
          : "The access token was not accepted: it may have expired.";
      write(part("sign-in-text"), text);
      show(true);
    },

    askIfNeeded() {
      if (token === undefined && document.documentElement.dataset.asksForToken !== undefined) signIn.ask();
    },
  };

  function use(given) {
    token = given.trim();
    store(token);
    show(false);
  }

  function show(isWaiting) {
    if (signIn.isWaiting === isWaiting) return;
    signIn.isWaiting = isWaiting;
    part("sign-in").hidden = !isWaiting;
    if (isWaiting) part("token").focus();
    onChange();
  }

  part("sign-in-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (part("token").value.trim() === "") return;
    use(part("token").value);
    part("token").value = "";
  });
  return signIn;
}
