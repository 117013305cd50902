/** The virtual host that lists show; empty for all. */
import { remembered } from "./store";

export const vhost = remembered("sluice.vhost", "");
