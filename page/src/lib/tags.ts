/** The tags of users, and what each lets a user do. */
import { withoutEffect } from "./names";
import { nearest } from "./nearest";

/** Each tag, and what it lets a user do in addition to the permissions of the user. */
export const TAGS: Record<string, string> = {
  administrator: "may do everything, also with users and virtual hosts",
  monitoring: "sees the connections and nodes, also those of others",
  policymaker: "sets policies",
  management: "uses this page and the HTTP API",
  impersonator: "publishes in the name of other users",
};

/** Returns typed tags, which have commas between. */
export function tagList(text: string): string[] {
  return text.split(",").map((tag) => tag.trim()).filter((tag) => tag !== "");
}

/** Returns a sentence for each tag that the broker does not know. `admin` is a usual short form. */
export function tagFaults(tags: string[]): string[] {
  const known = Object.keys(TAGS);
  const meant = (tag: string) => nearest(tag, known) ?? known.find((one) => tag.length > 2 && one.startsWith(tag)) ?? null;
  return tags.filter((tag) => !Object.hasOwn(TAGS, tag)).map((tag) => `The tag ${tag} ${withoutEffect(meant(tag))}`);
}
