/** Fields that know what the broker has: arguments with their types and meaning, and names that exist. */
import type { JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { path } from "../lib/api";
import { type Known, type KnownLists, faults, line, valuesOf, withLine, wrong } from "../lib/known";
import type { Page } from "../lib/names";
import { typedPairs } from "../lib/pairs";
import { useApi } from "../lib/poll";
import { TAGS, tagFaults, tagList } from "../lib/tags";
import { visible } from "../lib/text";
import { Area, Select, Text } from "./parts";

/** The most names that are offered. More would not be read. */
const NAMES_MAX = 20;

/** The time after the last key press until names are asked for, in milliseconds. */
const TYPING_MS = 200;

export type NameKind = "queue" | "exchange" | "vhost" | "user" | "connection";

/**
 * The field of a name, with the names that exist and contain what is typed. Other names can be typed, too. `withDefault` offers the
 * default exchange by its alias, which has no meaning in arguments.
 */
export function NameField({ kind, vhost = "", withDefault, value, set, ...more }: { kind: NameKind; vhost?: string; withDefault?: boolean; label: string; value: string; set: (value: string) => void; hint?: string; required?: boolean }): JSX.Element {
  const [asked, ask] = useState<string>();
  const [typed, type] = useState(false);
  const id = useId();
  useEffect(() => {
    if (!typed) return undefined;
    const timer = setTimeout(() => ask(value), TYPING_MS);
    return () => clearTimeout(timer);
  }, [value, typed]);
  const lists = { queue: path("queues", vhost), exchange: path("exchanges", vhost), vhost: path("vhosts"), user: path("users"), connection: path("connections") };
  const query = new URLSearchParams({ page: "1", page_size: String(NAMES_MAX), name: asked ?? "", columns: "name", disable_stats: "true" });
  const needsVhost = kind === "queue" || kind === "exchange";
  // A user who may not see the list types the name without help.
  const found = useApi<Page<{ name: string }>>(asked === undefined || (needsVhost && vhost === "") ? null : `${lists[kind]}?${query.toString()}`, { once: true, keep: true });
  const names = (found.data?.items ?? []).map((row) => (row.name === "" && withDefault ? "amq.default" : row.name)).filter((name) => name !== "");
  return (
    <div onFocusIn={() => type(true)}>
      <Text {...more} value={value} set={set} list={id} />
      <datalist id={id}>{names.map((name) => <option value={name}>{visible(name)}</option>)}</datalist>
    </div>
  );
}

/** Lines of `name=value`, as they are typed, with one that is chosen and not yet added to them. */
export interface Lines {
  typed: string;
  pending: string;
  set: (typed: string, pending: string) => void;
  /** What the window sends. */
  all: string;
}

/** The state of a [`Picker`]. A hook. */
export function useLines(initial = ""): Lines {
  const [{ typed, pending }, setLines] = useState({ typed: initial, pending: "" });
  return { typed, pending, set: (to, chosen) => setLines({ typed: to, pending: chosen }), all: pending === "" ? typed : withLine(typed, pending) };
}

/** Returns the lists of what the broker knows. They are asked for once. */
export function useKnown(): KnownLists | undefined {
  return useApi<KnownLists>(path("arguments"), { once: true }).data;
}

interface PickerProps {
  /** The field with the lines, and what one of them is called. */
  label: string;
  what: string;
  hint: string;
  vhost: string;
  /** What the object takes, and what others of its kind take. */
  fitting: Known[];
  all: Known[];
  /** True if the broker refuses names that it does not know. */
  refused?: boolean;
  lines: Lines;
}

/** True if an empty value is valid. */
const mayBeEmpty = (known?: Known): boolean => known?.kind === "exchange" || known?.kind === "text";

/** Lines of `name=value`, which can be typed, and a choice of those that the broker knows. */
export function Picker({ label, what, hint, vhost, fitting, all, refused, lines }: PickerProps): JSX.Element {
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const known = fitting.find((one) => one.name === name);
  const given = typedPairs(lines.typed);
  const problems = faults(given, all, fitting, refused);
  const fault = known && value !== "" ? wrong(known, value) : undefined;
  const words = known?.kind === "boolean" ? ["true", "false"] : known?.kind === "word" ? known.words ?? [] : undefined;
  const change = (next: Known | undefined, to: string) => {
    setName(next?.name ?? "");
    setValue(to);
    lines.set(lines.typed, next === undefined || (to === "" && !mayBeEmpty(next)) || wrong(next, to) !== undefined ? "" : line(next, to));
  };
  const choose = (to: string) => {
    const next = fitting.find((one) => one.name === to);
    change(next, next?.kind === "boolean" ? "true" : next?.kind === "word" ? next.words?.[0] ?? "" : "");
  };
  useEffect(() => {
    // Another type does not take what was chosen.
    if (name !== "" && known === undefined) choose("");
  }, [known]);
  // The chosen line goes with the others when the window is sent, also if nobody adds it.
  const add = () => {
    if (lines.pending === "") return;
    setName("");
    setValue("");
    lines.set(lines.all, "");
  };
  return (
    <fieldset class="picker">
      <legend>{label}</legend>
      <Select label={`Choose ${what}`} value={name} set={choose} options={[["", "…"], ...fitting.map((one): [string, string] => [one.name, one.name])]} />
      {known && (
        <div class="picked" onKeyDown={(event) => { if (event.key === "Enter" && event.target instanceof HTMLInputElement) { event.preventDefault(); add(); } }}>
          <p>{known.about}</p>
          {words ? <Select label="Value" value={value} set={(to) => change(known, to)} options={words.map((word) => [word, word])} /> : known.kind === "exchange" ? <NameField kind="exchange" vhost={vhost} label="Value" value={value} set={(to) => change(known, to)} hint={valuesOf(known)} /> : <Text label="Value" value={value} set={(to) => change(known, to)} hint={valuesOf(known)} required={!mayBeEmpty(known)} fault={fault} />}
          {fault && <p class="fault" role="status">{fault}.</p>}
          <button type="button" disabled={lines.pending === ""} onClick={add}>Add {known.name}</button>
        </div>
      )}
      <Area label={label} value={lines.typed} set={(to) => lines.set(to, lines.pending)} hint={hint} rows={3} />
      {problems.map((one) => <p class="fault" role="status">{sentence(one)}</p>)}
    </fieldset>
  );
}

/** Ends a text as a sentence, and escapes what cannot be seen in it. */
function sentence(text: string): string {
  return visible(text.endsWith("?") ? text : `${text}.`);
}

/** The field of the tags of a user, with a warning for those that the broker does not know. */
export function TagsField({ value, set }: { value: string; set: (value: string) => void }): JSX.Element {
  return (
    <>
      <Text label="Tags" value={value} set={set} hint={`${Object.keys(TAGS).join(", ")}, with commas between. Without a tag, the user cannot use this page.`} />
      {tagFaults(tagList(value)).map((one) => <p class="fault" role="status">{sentence(one)}</p>)}
    </>
  );
}

/** The field of a virtual host. */
export function VhostField({ value, set }: { value: string; set: (value: string) => void }): JSX.Element {
  return <NameField kind="vhost" label="Virtual host" value={value} set={set} required />;
}

