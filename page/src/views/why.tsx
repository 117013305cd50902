/** "Why does nothing move?": the broker's own answer, with what to do about it. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { path } from "../lib/api";
import { label, toneOf } from "../lib/causes";
import { command, inVhost } from "../lib/command";
import type { CauseRow, Explained } from "../lib/names";
import { go, href, place } from "../lib/place";
import { useApi } from "../lib/poll";
import { bytes, count, duration, isNumber, percent } from "../lib/text";
import { vhost as chosenVhost } from "../lib/vhost";
import { Answer, Command, Name, NameLink, Panel, Select, Text, Words, present } from "../ui/parts";
import { NameField } from "../ui/picker";

const KINDS: [string, string][] = [["queue", "Queue or stream"], ["connection", "Connection"], ["link", "Link or consumer"]];

export interface Subject {
  kind: string;
  vhost?: string | undefined;
  name: string;
  connection?: string | undefined;
}

function target({ kind, vhost, name, connection }: Subject): string {
  if (kind === "connection") return path("explain", "connections", name);
  if (kind === "link") {
    const base = vhost ? path("explain", "links", vhost, name) : path("explain", "links", name);
    return connection ? `${base}?connection=${encodeURIComponent(connection)}` : base;
  }
  return path("explain", "queues", vhost || "/", name);
}

function commandOf({ kind, vhost, name, connection }: Subject): string {
  const options = kind === "connection" ? [] : inVhost(vhost ?? "/");
  return command(["explain", kind], connection ? [...options, ["--connection", connection]] : options, [name]);
}

/** Returns a number in its unit, which its name ends with. */
export function valueOf(name: string, value: unknown): string {
  if (!isNumber(value)) return String(value);
  if (name.endsWith("_percent")) return percent(value / 100);
  if (name.endsWith("_ms")) return duration(value);
  return name.endsWith("_bytes") ? bytes(value) : count(value);
}

/** The answer for one object, below a heading that knows whether there is one. It is asked for again as often as everything else. */
export function Explanation({ subject, heading }: { subject: Subject; heading?: (exists: boolean) => JSX.Element }): JSX.Element {
  const answer = useApi<Explained>(target(subject));
  return (
    <>
      {heading?.(present(answer) !== undefined)}
      <Answer of={answer}>
        {(explained) => {
          const numbers = Object.entries(explained.numbers ?? {});
          const causes = explained.causes ?? [{ cause: explained.cause, sentence: explained.sentence, at: explained.at }];
          return (
            <div class="causes">
              {causes.map((one) => <CauseView key={`${one.cause} ${JSON.stringify(one.at ?? null)}`} of={one} />)}
              {(explained.notes ?? []).map((note) => <p class="note"><Words text={note} /></p>)}
              {numbers.length > 0 && (
                <details>
                  <summary>The numbers behind this</summary>
                  <dl class="numbers">
                    {numbers.map(([key, value]) => <div><dt>{key.replaceAll("_", " ")}</dt><dd>{isNumber(value) ? count(value) : String(value)}</dd></div>)}
                  </dl>
                  <Command text={commandOf(subject)} />
                </details>
              )}
            </div>
          );
        }}
      </Answer>
    </>
  );
}

/** One of the causes: what it is, what it means, what to do, and the numbers that show it. */
function CauseView({ of: { cause, sentence, meaning, advice = [], at, numbers } }: { of: CauseRow }): JSX.Element {
  const tone = toneOf(cause);
  const shown = Object.entries(numbers ?? {});
  const [only] = advice;
  return (
    <div class={`explain ${tone}`}>
      <p class="sentence"><span class={`badge ${tone}`}>{cause.replaceAll("_", " ")}</span> <Words text={sentence} /></p>
      {meaning && <p><Words text={meaning} /></p>}
      {advice.length < 2 ? <p><b>What to do:</b> <Words text={only ?? "nothing"} /></p> : (
        <>
          <p><b>What to do:</b></p>
          <ol class="advice">{advice.map((one) => <li><Words text={one} /></li>)}</ol>
        </>
      )}
      {shown.length > 0 && (
        <dl class="telling">
          {shown.map(([key, value]) => <div><dt>{label(key)}</dt><dd>{valueOf(key, value)}</dd></div>)}
        </dl>
      )}
      {at?.connection && (
        <p>
          At {at.link !== undefined && at.link !== null && <>the link <b><Name text={at.link} /></b> of </>}the connection{" "}
          <NameLink to={href(["connections", at.connection])} text={at.connection} />
        </p>
      )}
    </div>
  );
}

export function WhyView(): JSX.Element {
  const { query } = place.use();
  const [kind, setKind] = useState(query["kind"] ?? "queue");
  const [name, setName] = useState(query["name"] ?? "");
  const [vhost, setVhost] = useState(query["vhost"] ?? (chosenVhost.get() || "/"));
  const [connection, setConnection] = useState(query["connection"] ?? "");
  // The address may change while the view stays: a link leads to another subject.
  useEffect(() => {
    if (!query["name"]) return;
    setKind(query["kind"] ?? "queue");
    setName(query["name"]);
    setVhost(query["vhost"] ?? "/");
    setConnection(query["connection"] ?? "");
  }, [JSON.stringify(query)]);
  const subject = query["name"] ? { kind: query["kind"] ?? "queue", vhost: query["vhost"], name: query["name"], connection: query["connection"] } : undefined;
  return (
    <>
      <h1>Why does nothing move?</h1>
      <Panel title="Ask about">
        <form
          class="inline"
          onSubmit={(event) => {
            event.preventDefault();
            go(href(["why"], { kind, name, vhost: kind === "connection" ? undefined : vhost, connection: kind === "link" ? connection : undefined }));
          }}
        >
          <Select label="Kind" value={kind} set={setKind} options={KINDS} />
          {kind === "link" ? <Text label="Name" value={name} set={setName} required /> : <NameField key={kind} kind={kind === "connection" ? "connection" : "queue"} vhost={vhost} label="Name" value={name} set={setName} required />}
          {kind !== "connection" && <NameField kind="vhost" label="Virtual host" value={vhost} set={setVhost} />}
          {kind === "link" && <NameField kind="connection" label="Connection" value={connection} set={setConnection} hint="If several links have this name" />}
          <button type="submit" class="primary">Ask</button>
        </form>
      </Panel>
      {subject && (
        <Panel title="Answer">
          <Explanation
            key={JSON.stringify(subject)}
            subject={subject}
            heading={(exists) => (
              <p class="subject">
                {KINDS.find(([id]) => id === subject.kind)?.[1] ?? subject.kind} <b class="name"><Name text={subject.name} /></b>
                {exists && subject.kind === "queue" && <> · <a href={href(["queues", subject.vhost ?? "/", subject.name])}>its page</a></>}
                {exists && subject.kind === "connection" && <> · <a href={href(["connections", subject.name])}>its page</a></>}
              </p>
            )}
          />
        </Panel>
      )}
    </>
  );
}
