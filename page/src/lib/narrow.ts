/** Whether the window is as narrow as a phone. The style sheet has the same width. */
import { Store } from "./store";

export const narrow = new Store(false);

if (typeof window !== "undefined" && typeof window.matchMedia === "function") {
  const media = window.matchMedia("(max-width: 52rem)");
  narrow.set(media.matches);
  media.addEventListener("change", () => narrow.set(media.matches));
}
