/** Looks at messages without changing them, and gets messages. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useMemo, useState } from "preact/hooks";
import { ApiError, path, request, toApiError } from "../lib/api";
import { recognise } from "../lib/body";
import { command, inVhost } from "../lib/command";
import { deaths, redriven } from "../lib/deaths";
import { may, me } from "../lib/me";
import type { MessageRow } from "../lib/names";
import { change, href, place } from "../lib/place";
import { refresh } from "../lib/poll";
import { type Found, search, withText } from "../lib/search";
import { DASH, bytes, count, plural, time } from "../lib/text";
import { Action, fresh } from "../ui/actions";
import { Badge, Command, Copy, Empty, Fields, Name, NameLink, Panel, Problem, Select, Text } from "../ui/parts";
import { MoveOne } from "./move";
import { SendBack } from "./redrive";

/** The number of messages that are shown at once. */
const MESSAGES = 10;

/** The octets of a body that are loaded. Larger ones are cut, so that ten of them do not stop the browser. */
const BODY_MAX = 64 * 1024;

export function Messages({ vhost, name, stream }: { vhost: string; name: string; stream: boolean }): JSX.Element {
  const first = stream ? "first" : "1";
  const { from: begin = first, filter = "", since: earliest = "", until: latest = "" } = place.get().query;
  const [from, setFrom] = useState(begin);
  const [wanted, setWanted] = useState(filter);
  const [since, setSince] = useState(earliest);
  const [until, setUntil] = useState(latest);
  const [found, setFound] = useState<Found>();
  const [looks, setLooks] = useState(0);
  const reads = may(me.use(), "read", vhost, name);
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const [said, say] = useState("");
  const asked: Asked = { from, filter: wanted, since: toTime(since), until: toTime(until) };
  const look = async (start: string, toSay = "") => {
    say(toSay);
    const strange = [since, until].find((text) => !isTime(text));
    if (strange !== undefined) {
      setFound(undefined);
      setError(new ApiError(400, "page", `'${strange}' is not a time. Write a date such as 2026-01-31 or 2026-01-31 08:00, or a time span ago such as 10m. Its units are s, m, h, D, M and Y.`));
      return;
    }
    change({ from: start === first ? undefined : start, filter: wanted || undefined, since: since || undefined, until: until || undefined });
    setBusy(true);
    setError(undefined);
    try {
      const ask = async (next: string) => {
        const query = new URLSearchParams({ count: String(MESSAGES), truncate: String(BODY_MAX), ...withText(wanted) });
        for (const [key, value] of Object.entries(narrowed({ ...asked, from: next }))) if (value) query.set(key, value);
        return (await request("GET", `${path("queues", vhost, name, "search")}?${query.toString()}`)) as Found;
      };
      setFound(await search(ask, start, wanted, MESSAGES));
      setLooks((n) => n + 1);
    } catch (caught) {
      // An older answer would seem to be one to this question.
      setFound(undefined);
      setError(toApiError(caught));
    } finally {
      setBusy(false);
    }
  };
  // What has left the queue is no longer shown.
  const gone = (what: string) => void look(from, what);
  // A search that was bookmarked shows what it finds.
  useEffect(() => {
    if (begin !== first || filter || earliest || latest) void look(begin);
  }, []);
  const { messages, scanned = 0, next = null } = found ?? {};
  const narrow = wanted !== "" || since !== "" || until !== "";
  const { from: offset = "", ...texts } = narrowed(asked);
  const options = Object.entries({ offset, ...texts }).flatMap(([key, value]): [string, string][] => (value ? [[`--${key}`, value]] : []));
  return (
    <Panel title="Look at messages" aside={<span class="hint">They stay as they are, in their order.</span>}>
      <form class="inline" onSubmit={(event) => { event.preventDefault(); void look(from); }}>
        <Text label={stream ? "From" : "From position"} value={from} set={setFrom} required {...(stream ? { hint: "first, last, next, an offset, or a time span ago such as 10m" } : { pattern: "[1-9][0-9]*" })} />
        <Text label="With this text" value={wanted} set={setWanted} hint={`in the first ${BODY_MAX / 1024} KiB of the body as it is shown, in keys, properties or headers, such as country=DE`} />
        <Text label="Arrived since" value={since} set={setSince} hint="a time such as 2026-01-31 08:00, or a time span ago such as 10m" />
        <Text label="Arrived until" value={until} set={setUntil} />
        <button type="submit" class="primary" disabled={busy}>Look</button>
        {next !== null && (
          <button type="button" disabled={busy} onClick={() => { setFrom(String(next)); void look(String(next)); }}>{narrow ? "Look further" : `Next ${MESSAGES}`}</button>
        )}
      </form>
      <div role="status">{said && <p class="said"><Name text={said} /></p>}</div>
      {error && <Problem error={error} />}
      {messages && narrow && scanned > 0 && <p class="hint" role="status">{count(messages.length)} of the {plural(scanned, "message")} that {scanned === 1 ? "was" : "were"} read {messages.length === 1 ? "matches" : "match"}.</p>}
      {messages && scanned === 0 && <Empty title="There is no message at this place." />}
      {messages && messages.length > 0 && <MessageTable key={looks} vhost={vhost} rows={messages} actions={(row) => reads && !stream && <><SendBack vhost={vhost} name={name} row={row} gone={gone} /><MoveOne vhost={vhost} name={name} row={row} gone={gone} /></>} />}
      <Command text={command(["browse"], [...inVhost(vhost), ...options], [name])} />
    </Panel>
  );
}

/** What is asked for. Times are in milliseconds since the epoch; an empty text asks for nothing. */
interface Asked {
  from: string;
  filter: string;
  since: string;
  until: string;
}

/** A stream begins at the time, so the first offset says nothing beside it. */
function narrowed(asked: Asked): Partial<Asked> {
  return asked.since !== "" && asked.from === "first" ? { ...asked, from: "" } : asked;
}

/** Returns a time as the broker reads it. A date is in the time zone of the browser. What is none may be a time span. */
function toTime(text: string): string {
  const date = /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2})?))?$/.exec(text.trim());
  const ms = date ? new Date(`${date[1]}T${date[2] ?? "00:00"}`).getTime() : Number.NaN;
  return Number.isNaN(ms) ? text.trim() : String(ms);
}

/** Returns true for what the broker reads as a time after [`toTime`]; an empty text asks for none. */
function isTime(text: string): boolean {
  return /^\d*$|^\d+[YMDhms]$/.test(toTime(text));
}

/** The fields of a row that are shown in its first line. All others are sections of the message. */
const HEAD = new Set(["position", "offset", "seq", "arrived_at", "exchange", "routing_key", "redelivered", "delivery_count", "acquired_count", "message_count", "payload", "payload_bytes", "payload_encoding", "undecoded", "error"]);

/** The characters of a body that its line shows. */
const PREVIEW = 160;

/** Messages with one line each, which opens. A single one is open at once. */
function MessageTable({ vhost, rows, actions }: { vhost: string; rows: MessageRow[]; actions?: (row: MessageRow) => ComponentChildren }): JSX.Element {
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set(rows.length === 1 ? [0] : []));
  const id = useId();
  const toggle = (index: number) => {
    const next = new Set(open);
    if (!next.delete(index)) next.add(index);
    setOpen(next);
  };
  const all = open.size === rows.length;
  return (
    <>
      {rows.length > 1 && <button type="button" class="quiet" onClick={() => setOpen(new Set(all ? [] : rows.keys()))}>{all ? "Close all" : "Open all"}</button>}
      <div class="scroll" role="region" aria-label="Messages, table" tabIndex={0}>
        <table class="messages">
          <caption class="hidden">Messages</caption>
          <thead>
            <tr>{[rows[0]?.offset !== undefined ? "Offset" : "Position", "Body", "Key", "Exchange", "Kind", "Size", "Arrived", "Failed"].map((label) => <th scope="col" class={label === "Size" || label === "Failed" ? "number" : undefined}>{label}</th>)}</tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <>
                <MessageLine row={row} index={index} open={open.has(index)} controls={`${id}-${index}`} toggle={() => toggle(index)} />
                {open.has(index) && <tr class="opened" id={`${id}-${index}`}><td colSpan={8}><MessageCard vhost={vhost} row={row}>{actions?.(row)}</MessageCard></td></tr>}
              </>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function MessageLine({ row, index, open, controls, toggle }: { row: MessageRow; index: number; open: boolean; controls: string; toggle: () => void }): JSX.Element {
  const body = useMemo(() => recognise(row), [row]);
  const place = row.offset ?? row.position ?? index + 1;
  const preview = body.text.slice(0, PREVIEW).replaceAll(/\s+/g, " ");
  const died = deaths(row).length > 0;
  return (
    <tr class={open ? "line open" : "line"} onClick={(event) => { if (!(event.target as Element).closest("button, a") && getSelection()?.isCollapsed !== false) toggle(); }}>
      <td>
        <button type="button" class="quiet toggle" aria-expanded={open} aria-controls={open ? controls : undefined} aria-label={`${open ? "Close" : "Open"} the message ${count(place)}`} onClick={toggle}>
          <span class="arrow" aria-hidden="true">{open ? "▾" : "▸"}</span>{count(place)}
        </button>
      </td>
      <td class="preview">{row.error ? <span class="bad"><Name text={row.error} /></span> : body.kind === "empty" ? <span class="hint">empty</span> : <Name text={preview} />}</td>
      <td><Name text={row.routing_key || DASH} /></td>
      <td><Name text={row.exchange || "(default)"} /></td>
      <td class="nowrap">{body.kind}{died && <> <Badge tone="warn">dead letter</Badge></>}</td>
      <td class="number">{bytes(row.payload_bytes)}</td>
      <td class="nowrap">{row.arrived_at === undefined ? DASH : brief(row.arrived_at)}</td>
      <td class="number">{row.delivery_count ? count(row.delivery_count) : row.redelivered ? "given back" : DASH}</td>
    </tr>
  );
}

/** A time without its date, if it is of today. */
function brief(ms: number): string {
  const [date = "", clock = ""] = time(ms).split(" ");
  return time(Date.now()).startsWith(date) ? clock : `${date} ${clock}`;
}

function MessageCard({ vhost, row, children }: { vhost: string; row: MessageRow; children?: ComponentChildren }): JSX.Element {
  const body = useMemo(() => recognise(row), [row]);
  const sections = Object.entries(row).filter(([key, value]) => !HEAD.has(key) && typeof value === "object" && value !== null && Object.keys(value).length > 0);
  return (
    <article class="message">
      <header>
        <b>{row.offset !== undefined ? `Offset ${count(row.offset)}` : row.position !== undefined ? `Position ${count(row.position)}` : "Message"}</b>
        <span>exchange <b><Name text={row.exchange || "(default)"} /></b></span>
        <span>key <b><Name text={row.routing_key || DASH} /></b></span>
        {row.arrived_at !== undefined && <span>arrived {time(row.arrived_at)}</span>}
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

export const GetMessages = fresh(({ vhost, name }: { vhost: string; name: string }): JSX.Element => {
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
        return rows.length === 0 ? "The queue has no ready message." : <MessageTable vhost={vhost} rows={rows} />;
      }}
    >
      <p>To look at messages without changing anything, use “Look at messages” on the page of the queue.</p>
      <Select label="Then" value={mode} set={setMode} options={MODES} />
      <Text label="How many" value={number} set={setNumber} required pattern="[1-9][0-9]{0,2}" />
    </Action>
  );
});
