/** Everything that is not well, the worst first, with what it means and what to do. The broker says all of it. */
import type { JSX } from "preact";
import { path } from "../lib/api";
import { type Tone, label } from "../lib/causes";
import { href } from "../lib/place";
import { useApi } from "../lib/poll";
import { count, plural } from "../lib/text";
import { Badge, Name, NameLink, Panel, Why, Words } from "../ui/parts";
import { valueOf } from "./why";

interface TroubledObject {
  kind: string;
  vhost?: string;
  name: string;
  numbers?: Record<string, unknown>;
}

interface Trouble {
  cause: string;
  severity: string;
  sentence: string;
  meaning: string;
  advice: string[];
  objects: TroubledObject[];
  count: number;
}

interface Answer {
  troubles: Trouble[];
  looked_at?: { queues?: number; connections?: number };
}

/** A broker newer than this page may have further severities. */
const TONES: Record<string, Tone> = { critical: "bad", warning: "warn", notice: "calm" };

/** The most numbers of an object that are shown beside its name. */
const NUMBERS_MAX = 3;

export function Troubles(): JSX.Element | null {
  const answer = useApi<Answer>(path("explain"));
  // Users who may not ask, and brokers that cannot answer, are no trouble. That the broker is gone is said above.
  if (!answer.data) return null;
  const { troubles, looked_at: looked } = answer.data;
  const seen = looked ? `Looked at ${plural(looked.queues ?? 0, "queue")} and ${plural(looked.connections ?? 0, "connection")}.` : "";
  if (troubles.length === 0) {
    return (
      <section class={answer.error ? "well stale" : "well"} aria-label="What is not well" role="status">
        <b>Nothing is wrong.</b> <span>{seen}</span>
      </section>
    );
  }
  return (
    <Panel title="What is not well" aside={<span class="hint">{seen}</span>}>
      <ul class={answer.error ? "troubles stale" : "troubles"}>
        {troubles.map((trouble, index) => <Entry key={trouble.cause} trouble={trouble} open={index === 0} />)}
      </ul>
    </Panel>
  );
}

function Entry({ trouble, open }: { trouble: Trouble; open: boolean }): JSX.Element {
  const tone = TONES[trouble.severity] ?? "warn";
  const more = trouble.count - trouble.objects.length;
  return (
    <li class={`explain ${tone}`}>
      <p class="sentence"><Badge tone={tone}>{trouble.severity}</Badge> <Words text={trouble.sentence} /></p>
      <ul class="troubled">
        {trouble.objects.map((object) => <li key={`${object.kind}\u0000${object.vhost ?? ""}\u0000${object.name}`}><Troubled object={object} /></li>)}
        {more > 0 && <li class="hint">and {count(more)} more</li>}
      </ul>
      <details open={open}>
        <summary>What it means, and what to do</summary>
        <p><Words text={trouble.meaning} /></p>
        {trouble.advice.length > 0 && <ol class="advice">{trouble.advice.map((one) => <li><Words text={one} /></li>)}</ol>}
      </details>
    </li>
  );
}

function Troubled({ object }: { object: TroubledObject }): JSX.Element {
  const { kind, vhost, name } = object;
  const numbers = Object.entries(object.numbers ?? {}).slice(0, NUMBERS_MAX);
  const to = pageOf(object);
  return (
    <>
      {to ? <NameLink to={to} text={name} /> : <b class="name"><Name text={name} /></b>}
      {vhost !== undefined && vhost !== "/" && <span class="hint"> in <Name text={vhost} /></span>}
      {numbers.length > 0 && <span class="hint"> {numbers.map(([key, value]) => `${label(key)} ${valueOf(key, value)}`).join(", ")}</span>}
      {(kind === "queue" || kind === "stream") && vhost !== undefined && <> <Why kind="queue" vhost={vhost} name={name} /></>}
      {kind === "connection" && <> <Why kind="connection" name={name} /></>}
    </>
  );
}

/** Returns the address of the page of an object, if it has one. */
function pageOf({ kind, vhost, name }: TroubledObject): string | undefined {
  switch (kind) {
    case "queue": case "stream": return vhost === undefined ? undefined : href(["queues", vhost, name]);
    case "connection": return href(["connections", name]);
    case "user": return href(["admin", "users", name]);
    case "node": case "shard": return "#/admin/nodes";
    default: return undefined;
  }
}
