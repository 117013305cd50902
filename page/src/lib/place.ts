/** Where in the page the user is: the part of the address after `#`. It can be bookmarked. */
import { Store } from "./store";

export interface Place {
  /** The decoded segments. */
  path: string[];
  query: Record<string, string>;
}

export function parse(hash: string): Place {
  const [route = "", search = ""] = hash.replace(/^#/, "").split("?", 2);
  const path = route.split("/").filter((part) => part !== "").map(decoded);
  return { path, query: Object.fromEntries(new URLSearchParams(search)) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // Somebody typed a percent sign: it is taken as it is.
    return part;
  }
}

export function href(path: string[], query: Record<string, string | undefined> = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value) search.set(key, value);
  const text = search.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export const place = new Store<Place>(parse(typeof location === "undefined" ? "" : location.hash));

if (typeof window !== "undefined") {
  window.addEventListener("hashchange", () => place.set(parse(location.hash)));
}

/** Goes to another place. With `replace`, the step back leads to the place before this one. */
export function go(to: string, replace = false): void {
  if (replace) {
    history.replaceState(null, "", to);
    place.set(parse(to));
  } else {
    location.hash = to;
  }
}

/** Goes to another place at once, so that what is said next is said there. */
export function leave(to: string): void {
  history.pushState(null, "", to);
  place.set(parse(to));
}

/** Changes parts of the query of this place. */
export function change(query: Record<string, string | undefined>): void {
  const now = place.get();
  go(href(now.path, { ...now.query, ...query }), true);
}
