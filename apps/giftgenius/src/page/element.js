/** Making and finding elements. Every text becomes a text node: nothing from outside is ever read as markup. */

/** Finds a part of the page by its id. */
export function part(id) {
  return document.getElementById(id);
}

/** Makes an element: functions become listeners, absent values are left out, texts become text nodes. */
export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== undefined && child !== false));
  return node;
}

/** Writes only what differs, so that selections, focus and screen readers are left in peace. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Replaces the children only when `key` differs from the last time. */
export function fill(node, key, make) {
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  node.replaceChildren(...make());
}

/** The notice that every error gets: what happened, what to do, and the code for those who help. */
export function errorNotice(error, ...actions) {
  return el(
    "div",
    { class: "notice error", role: "alert" },
    el("p", { dir: "auto" }, el("strong", {}, String(error.message ?? "Something went wrong."))),
    error.hint && el("p", { dir: "auto" }, String(error.hint)),
    error.code && el("p", { class: "code" }, "Code ", el("code", {}, String(error.code))),
    actions.length > 0 && el("div", { class: "actions" }, actions),
  );
}

/** A quiet or a warning notice. */
export function notice(kind, text, ...actions) {
  return el("div", { class: `notice ${kind}` }, el("p", { dir: "auto" }, text), actions);
}

const numbers = new Intl.NumberFormat();

export function count(value, one, many) {
  return `${numbers.format(value)} ${value === 1 ? one : many}`;
}

export function number(value) {
  return Number.isFinite(value) ? numbers.format(value) : "–";
}

/** Cents as money of `currency`, as the reader's language writes it. */
export function money(cents, currency) {
  if (!Number.isFinite(cents)) return "–";
  try {
    return new Intl.NumberFormat(undefined, { style: "currency", currency }).format(cents / 100);
  } catch {
    return `${(cents / 100).toFixed(2)} ${currency}`;
  }
}

/** A span of time for people: 0.4 s, 12 s, 3 min 5 s. */
export function duration(ms) {
  if (ms < 9_950) return `${number(Math.round(ms / 100) / 10)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 === 0 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`;
  return `${number(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

export function bytes(size) {
  if (size < 1_000) return count(size, "byte", "bytes");
  if (size < 1_000_000) return `${number(Math.round(size / 100) / 10)} kB`;
  return `${number(Math.round(size / 100_000) / 10)} MB`;
}

export function clockTime(ms) {
  return new Intl.DateTimeFormat(undefined, { timeStyle: "medium" }).format(ms);
}
