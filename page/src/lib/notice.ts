/** What the page says about the last change, until the user goes elsewhere. */
import type { ComponentChildren } from "preact";
import { place } from "./place";
import { Store } from "./store";

export const notice = new Store<ComponentChildren>(null);

let at = place.get().path.join("/");
place.subscribe(() => {
  const now = place.get().path.join("/");
  if (now !== at) notice.set(null);
  at = now;
});
