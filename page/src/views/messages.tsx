/** Looks at messages without changing them, and gets messages. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, path, request, toApiError } from "../lib/api";
import { recognise } from "../lib/body";
import { command, inVhost } from "../lib/command";
import { deaths, redriven } from "../lib/deaths";
import type { MessageRow } from "../lib/names";
import { href } from "../lib/place";
import { refresh } from "../lib/poll";
import { matches } from "../lib/search";
import { DASH, bytes, count, plural, time } from "../lib/text";
import { Action } from "../ui/actions";
import { Command, Copy, Empty, Fields, Name, NameLink, Panel, Problem, Select, Text } from "../ui/parts";
import { MoveOne } from "./move";
import { SendBack } from "./redrive";

/** The number of messages that are shown at once. */
const MESSAGES = 10;

/** The octets of a body that are loaded. Larger ones are cut, so that ten of them do not stop the browser. */
const BODY_MAX = 64 * 1024;

/**
 * The messages that are read at most for one press of a button, if a text is searched. Each of them is a request, so that more
 * would keep the broker and the browser busy for long.
 */
const SEARCH_MAX = 200;

/** What was found, how many messages were read for it, and where to go on. */
interface Found {
  rows: MessageRow[];
  read: number;
  next: string;
}

export function Messages({ vhost, name, stream, ready }: { vhost: string; name: string; stream: boolean; ready: number | undefined }): JSX.Element {
  const [from, setFrom] = useState(stream ? "first" : "1");
  const [wanted, setWanted] = useState("");
  const [found, setFound] = useState<Found>();
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const gone = useRef(false);
  useEffect(() => () => { gone.current = true; }, []);
  const look = async (start: string) => {
    setBusy(true);
    setError(undefined);
    try {
      const now: Found = { rows: [], read: 0, next: start };
      // Without a text, all messages match, so the first part is enough. A short part is the last one for now.
      for (let whole = true; whole && now.rows.length < MESSAGES && now.read < SEARCH_MAX && !gone.current; ) {
        const part: MessageRow[] = stream ? await browse(vhost, name, now.next) : await peek(vhost, name, Number(now.next), ready);
        const last = part.at(-1);
        if (last !== undefined) now.next = String((stream ? (last.offset ?? 0) : (last.position ?? 0)) + 1);
        now.read += part.length;
        now.rows.push(...(wanted === "" ? part : part.filter((row) => matches(row, wanted))));
        whole = part.length === MESSAGES;
      }
      setFound(now);
    } catch (caught) {
      setError(toApiError(caught));
    } finally {
      setBusy(false);
    }
  };
  const { rows, read = 0, next } = found ?? {};
  return (
    <Panel title="Look at messages" aside={<span class="hint">They stay as they are, in their order.</span>}>
      <form class="inline" onSubmit={(event) => { event.preventDefault(); void look(from); }}>
        <Text label={stream ? "From" : "From position"} value={from} set={setFrom} required {...(stream ? { hint: "first, last, next, an offset, or a time span ago such as 10m" } : { pattern: "[1-9][0-9]*" })} />
        <Text label="With this text" value={wanted} set={setWanted} hint={`in the first ${BODY_MAX / 1024} KiB of the body, in keys, properties or headers, such as country=DE`} />
        <button type="submit" class="primary" disabled={busy}>Look</button>
        {next !== undefined && read > 0 && (
          <button type="button" disabled={busy} onClick={() => { setFrom(next); void look(next); }}>{wanted === "" ? `Next ${MESSAGES}` : "Look further"}</button>
        )}
      </form>
      {error && <Problem error={error} />}
      {rows && wanted !== "" && read > 0 && <p class="hint" role="status">{count(rows.length)} of the {plural(read, "message")} that {read === 1 ? "was" : "were"} read {rows.length === 1 ? "has" : "have"} this text.</p>}
      {rows && read === 0 && <Empty title="There is no message at this place." />}
      {rows?.map((row) => <MessageCard key={row.seq ?? row.offset} vhost={vhost} row={row}>{!stream && <><SendBack vhost={vhost} name={name} row={row} /><MoveOne vhost={vhost} name={name} row={row} /></>}</MessageCard>)}
      {!stream && <Command text={command(["peek"], inVhost(vhost), [name, from])} />}
    </Panel>
  );
}

async function browse(vhost: string, name: string, start: string): Promise<MessageRow[]> {
  const query = new URLSearchParams({ offset: start, count: String(MESSAGES), truncate: String(BODY_MAX) });
  return (await request("GET", `${path("queues", vhost, name, "messages")}?${query.toString()}`)) as MessageRow[];
}

/** `ready` is the number of ready messages, as far as it is known: more are not asked for. */
async function peek(vhost: string, name: string, start: number, ready: number | undefined): Promise<MessageRow[]> {
  const rows: MessageRow[] = [];
  const end = Math.min(start + MESSAGES, Math.max(start, ready ?? Infinity) + 1);
  for (let position = start; position < end; position++) {
    try {
      rows.push((await request("GET", `${path("queues", vhost, name, "peek", String(position))}?truncate=${BODY_MAX}`)) as MessageRow);
    } catch (error) {
      // The queue ends before this position. The first message missing is worth a word, a later one is not.
      if (error instanceof ApiError && error.status === 404 && rows.length > 0) break;
      if (error instanceof ApiError && error.status === 404 && /position|message/.test(error.reason)) break;
      throw error;
    }
  }
  return rows;
}

/** The fields of a row that are shown in its first line. All others are sections of the message. */
const HEAD = new Set(["position", "offset", "seq", "exchange", "routing_key", "redelivered", "delivery_count", "acquired_count", "message_count", "payload", "payload_bytes", "payload_encoding", "error"]);

export function MessageCard({ vhost, row, children }: { vhost: string; row: MessageRow; children?: ComponentChildren }): JSX.Element {
  const body = useMemo(() => recognise(row), [row]);
  const sections = Object.entries(row).filter(([key, value]) => !HEAD.has(key) && typeof value === "object" && value !== null && Object.keys(value).length > 0);
  return (
    <article class="message">
      <header>
        <b>{row.offset !== undefined ? `Offset ${count(row.offset)}` : row.position !== undefined ? `Position ${count(row.position)}` : "Message"}</b>
        <span>exchange <b><Name text={row.exchange || "(default)"} /></b></span>
        <span>key <b><Name text={row.routing_key || DASH} /></b></span>
        {row.redelivered && <span>redelivered{row.delivery_count ? `, ${count(row.delivery_count)} failed deliveries` : ""}</span>}
        <span class="push">{body.kind} · {bytes(row.payload_bytes)}{body.note ? ` · ${body.note}` : ""}</span>
        {body.text && <Copy text={body.text} label="Copy body" />}
      </header>
      {row.error && <p class="problem"><Name text={row.error} /></p>}
      {deaths(row).map((death) => (
        <p class="death">
          Died in the queue <NameLink to={href(["queues", vhost, death.queue])} text={death.queue} />: {death.why}
          {death.count !== undefined && death.count > 1 && `, ${plural(death.count, "time")}`}
          {death.at !== undefined && `, last at ${time(death.at)}`}. It came to it from the exchange <b><Name text={death.exchange || "(default)"} /></b>
          {death.keys.length > 0 && <> with the key <b><Name text={death.keys.join(", ")} /></b></>}.
        </p>
      ))}
      {redriven(row) > 0 && <p class="death">It was sent back to where it died {plural(redriven(row), "time")}.</p>}
      {children}
      {body.kind === "empty" ? <p class="hint">The body is empty.</p> : <pre tabIndex={0} role="group" aria-label="Body">{body.kind === "hex" ? body.text : <Lines text={body.text} />}</pre>}
      {sections.map(([key, value]) => (
        <div class="section"><h3>{key.replaceAll("_", " ")}</h3><Fields map={value as Record<string, unknown>} /></div>
      ))}
    </article>
  );
}

/** Text with its line breaks; all other hidden characters are escaped. */
function Lines({ text }: { text: string }): JSX.Element {
  return <>{text.split(/\r?\n/).map((line, i) => <>{i > 0 && "\n"}{line.split("\t").map((part, j) => <>{j > 0 && "\t"}<Name text={part} /></>)}</>)}</>;
}

const MODES: [string, string][] = [
  ["ack_requeue_true", "Give them back to the queue (they count as redelivered)"],
  ["ack_requeue_false", "Acknowledge them: they leave the queue"],
  ["reject_requeue_true", "Reject them, back to the queue"],
  ["reject_requeue_false", "Reject them: they are dead-lettered or dropped"],
];

export function GetMessages({ vhost, name }: { vhost: string; name: string }): JSX.Element {
  const [mode, setMode] = useState("ack_requeue_true");
  const [number, setNumber] = useState("1");
  return (
    <Action
      label="Get"
      title={`Get messages from ${name}`}
      confirm="Get"
      danger={mode.endsWith("false")}
      command={command(["get"], [...inVhost(vhost), ["--count", number], ["--ackmode", mode]], [name])}
      run={async () => {
        const answer = await request("POST", path("queues", vhost, name, "get"), { body: { count: Number(number), ackmode: mode, encoding: "auto", truncate: BODY_MAX } });
        refresh();
        const rows = Array.isArray(answer) ? (answer as MessageRow[]) : [];
        return rows.length === 0 ? "The queue has no ready message." : <>{rows.map((row) => <MessageCard vhost={vhost} row={row} />)}</>;
      }}
    >
      <p>To look at messages without changing anything, use “Look at messages” on the page of the queue.</p>
      <Select label="Then" value={mode} set={setMode} options={MODES} />
      <Text label="How many" value={number} set={setNumber} required pattern="[1-9][0-9]{0,2}" />
    </Action>
  );
}
