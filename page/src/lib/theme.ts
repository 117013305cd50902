/** Light and dark. */
import { remembered } from "./store";

export const THEMES = ["auto", "light", "dark"];
export const theme = remembered("sluice.theme", "auto");

function apply(): void {
  document.documentElement.dataset["theme"] = theme.get();
}

/** Shows the chosen theme from now on. */
export function startTheme(): void {
  apply();
  theme.subscribe(apply);
}
