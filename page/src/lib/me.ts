/** What the user of the page may do, so that the page offers nothing that the broker would refuse. The broker decides again. */
import { Store } from "./store";

export interface Permissions {
  vhost: string;
  configure: string;
  write: string;
  read: string;
}

export interface Me {
  name: string;
  tags: string[];
  /** The user's own permissions. They are missing if a token or another server decides. */
  permissions?: Permissions[];
}

/** Null until the broker has answered. */
export const me = new Store<Me | null>(null);

/** True if the user may see the connections and consumers of other users. */
export function monitors(who: Me | null): boolean {
  return has(who, "monitoring", "administrator");
}

export function administers(who: Me | null): boolean {
  return has(who, "administrator");
}

/** True if the user may set policies. */
export function makesPolicies(who: Me | null): boolean {
  return has(who, "policymaker", "administrator");
}

function has(who: Me | null, ...tags: string[]): boolean {
  return who !== null && tags.some((tag) => who.tags.includes(tag));
}

export type Right = "configure" | "write" | "read";

/** True if the user has the permission on a queue or exchange, or if the page cannot know it. */
export function may(who: Me | null, right: Right, vhost: string, name: string): boolean {
  if (who === null) return false;
  if (who.permissions === undefined) return true;
  const pattern = who.permissions.find((one) => one.vhost === vhost)?.[right];
  if (pattern === undefined || pattern === "") return false;
  try {
    return new RegExp(pattern, "u").test(name === "" ? "amq.default" : name);
  } catch {
    // Regular expressions of the broker may have parts that those of browsers do not have.
    return true;
  }
}

/** True if the user may do it with some queue or exchange of the virtual host, or of any for an empty name. */
export function mayAny(who: Me | null, right: Right, vhost: string): boolean {
  if (who === null) return false;
  return who.permissions === undefined || who.permissions.some((one) => (vhost === "" || one.vhost === vhost) && one[right] !== "" && one[right] !== "^$");
}
