/** One queue or stream. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { exchangeInPath, path, request } from "../lib/api";
import { command, inVhost } from "../lib/command";
import { rejects, settings } from "../lib/effective";
import { administers, may, me } from "../lib/me";
import type { BindingRow, QueueRow } from "../lib/names";
import { pairs, toObject, toOptions, typedPairs } from "../lib/pairs";
import { href } from "../lib/place";
import { useApi } from "../lib/poll";
import { DASH, bytes, count, isNumber, plural, time, visible } from "../lib/text";
import { Chart, MESSAGES, PER_SECOND, rateLines, valueLines } from "../ui/chart";
import { Action, Actions, Named, done, fresh } from "../ui/actions";
import { NameField } from "../ui/picker";
import { Absent, Answer, Area, Badge, Empty, Facts, Fields, Name, NameLink, NotPermitted, Panel, State, Table, Text, Tile, present, show, unknownArguments } from "../ui/parts";
import { SpanChoice, useSpan } from "../ui/spans";
import { BindingTable, Unbind } from "./bindings";
import { ConsumerTable } from "./channels";
import { GetMessages, Messages } from "./messages";
import { Move } from "./move";
import { Publish } from "./publish";
import { Redrive } from "./redrive";
import { Trace } from "./trace";
import { Explanation } from "./why";

/** The number of publishes that a queue at its limit has refused, if it refuses any. */
function rejections(row: QueueRow): [string, string][] {
  const count = row.message_stats?.publish_rejected;
  return rejects(row) || (isNumber(count) && count > 0) ? [["publish_rejected", "Rejected publishes"]] : [];
}

const RATES: [string, string][] = [["publish", "In"], ["deliver_get", "Out"], ["ack", "Acknowledged"]];
const LENGTHS: [string, string][] = [["messages_ready", "Ready"], ["messages_unacknowledged", "Unacknowledged"]];

export function QueueView({ vhost, name }: { vhost: string; name: string }): JSX.Element {
  const target = path("queues", vhost, name);
  const queue = useApi<QueueRow>(`${target}?${useSpan().query}`, { keep: true });
  const row = present(queue);
  const who = me.use();
  const [reads, configures] = [may(who, "read", vhost, name), may(who, "configure", vhost, name)];
  if (!row) return <Absent what={`queue in the virtual host ${visible(vhost)} with the name`} name={name} list="#/queues" label="Queues and streams" of={queue} />;
  const stream = row.type === "stream";
  const { messages, messages_ready: ready } = row;
  return (
    <>
      <p class="crumbs"><a href="#/queues">Queues and streams</a> / <Name text={vhost} /></p>
      <div class="listbar">
        <h1 class="name"><Name text={name} /></h1>
        <Badge tone="plain">{row.type}</Badge> <State state={row.state} />
        <Actions>
          {may(who, "write", vhost, "") && <Publish vhost={vhost} exchange="" routingKey={name} />}
          {reads && <GetMessages vhost={vhost} name={name} />}
          {reads && !stream && <Move vhost={vhost} name={name} messages={messages} />}
          {administers(who) && <Trace of={{ kind: "queue", vhost, name }} />}
          {reads && !stream && <Redrive vhost={vhost} name={name} messages={messages} />}
          {reads && !stream && (
            <Action label="Purge" title={`Purge ${name}?`} confirm={isNumber(ready) ? `Purge ${plural(ready, "message")}` : "Purge"} danger command={command(["purge", "queue"], inVhost(vhost), [name])} run={async () => {
              await request("DELETE", `${target}/contents`);
              done(<>All ready messages were purged from <b class="name"><Name text={name} /></b>.</>);
            }}>
              <Named before="All ready messages leave the queue" name={name} after=" for good." />
              <p>It has {count(messages)} messages; {show(row, "messages_unacknowledged", count)} of them are held by consumers and stay.</p>
            </Action>
          )}
          {configures && <Action
            label="Delete"
            title={`Delete ${name}?`}
            confirm="Delete the queue"
            danger
            command={command(["delete", "queue"], inVhost(vhost), [name])}
            run={async () => {
              await request("DELETE", target);
              done(<>The {stream ? "stream" : "queue"} <b class="name"><Name text={name} /></b> was deleted.</>, "#/queues");
            }}
          >
            <Named before="The queue" name={name} after={` in the virtual host ${vhost} is deleted, with ${isNumber(messages) ? plural(messages, "message") : "all messages"} and ${isNumber(row.consumers) ? plural(row.consumers, "consumer") : "all consumers"} attached.`} />
          </Action>}
        </Actions>
      </div>
      <Tiles row={row} />
      <Panel title="Why does nothing move?"><Explanation subject={{ kind: "queue", vhost, name }} /></Panel>
      <Answer of={queue}>{(data) => <Numbers row={data} />}</Answer>
      {row.type === "quorum" && <Quorum vhost={vhost} name={name} />}
      <Panel title="Consumers" tight><QueueConsumers row={row} /></Panel>
      <QueueBindings vhost={vhost} name={name} />
      <Messages vhost={vhost} name={name} stream={stream} />
    </>
  );
}

/** The consumers of a queue. The broker counts all of them, and shows those of connections that the user may see. */
function QueueConsumers({ row }: { row: QueueRow }): JSX.Element {
  const shown = row.consumer_details ?? [];
  const hidden = (row.consumers ?? 0) - shown.length;
  if (shown.length === 0) return hidden > 0 ? <Empty title={`${plural(hidden, "consumer")} of other users: not permitted`}>You may see the consumers of your own connections. The tag monitoring shows all of them.</Empty> : <Empty title="No consumer is attached." />;
  return (
    <>
      <ConsumerTable rows={shown} ofQueue empty={null} />
      {hidden > 0 && <p class="hint"><NotPermitted>{plural(hidden, "more consumer")} of other users</NotPermitted></p>}
    </>
  );
}

/** The numbers of messages, which are the first thing that people look for. */
function Tiles({ row }: { row: QueueRow }): JSX.Element {
  return (
    <div class="tiles">
      <Tile label="Ready" value={count(row.messages_ready)} note={show(row, "message_bytes_ready", bytes)} />
      <Tile label="Unacknowledged" value={count(row.messages_unacknowledged)} note={show(row, "message_bytes_unacknowledged", bytes)} />
      <Tile label="Consumers" value={count(row.consumers)} />
      {[["messages_delayed", "Delayed"], ["messages_dlx", "Being dead-lettered"], ["segments", "Segments"], ["first_offset", "First offset"], ["next_offset", "Next offset"], ["closed_from", "Closed from"]].map(([field, label]) => {
        const value = (row as unknown as Record<string, unknown>)[field ?? ""];
        return isNumber(value) && (value > 0 || row.type === "stream") ? <Tile label={label ?? ""} value={count(value)} /> : null;
      })}
    </div>
  );
}

function Numbers({ row }: { row: QueueRow }): JSX.Element {
  const span = useSpan();
  return (
    <>
      <div class="columns">
        <Panel title="Messages over time" aside={<SpanChoice now={span} />}>
          <div class="charts one">
            <Chart title="Rates" span={span.seconds} unit={PER_SECOND} lines={rateLines(row.message_stats, RATES)} />
            <Chart title="In the queue" span={span.seconds} unit={MESSAGES} lines={valueLines(row, LENGTHS)} />
          </div>
        </Panel>
        <Panel title="What it is">
          <Facts
            items={[
              ["Arguments", <Fields map={row.arguments} />],
              ...unknownArguments(row.unknown_arguments),
              ["Policy", row.policy ? <Name text={row.policy} /> : DASH],
              ["Operator policy", row.operator_policy ? <Name text={row.operator_policy} /> : DASH],
              ["Effective policy", <Fields map={row.effective_policy_definition} />],
              ...settings(row).map(({ label, value, exchange }): [string, ComponentChildren] => [label, exchange !== undefined ? <NameLink to={href(["exchanges", row.vhost, exchangeInPath(exchange)])} text={value} /> : <Name text={value} />]),
              ["Durable", row.durable ? "yes" : "no"],
              ["Deleted with its last consumer", row.auto_delete ? "yes" : "no"],
              ["Exclusive", row.exclusive ? "yes" : "no"],
              ["Node", row.node],
              ...(row.type === "stream" ? [["Oldest chunk", show(row, "first_timestamp", time)] as [string, string], ["Newest chunk", show(row, "last_timestamp", time)] as [string, string]] : []),
            ]}
          />
          <h3>Since its start</h3>
          <dl class="numbers">
            {[["publish", "Published"], ["deliver", "Delivered"], ["ack", "Acknowledged"], ["redeliver", "Redelivered"], ["expired", "Expired"], ["dropped", "Dropped"], ...rejections(row), ["dead_lettered", "Dead-lettered"]].map(([field, label]) => (
              <div><dt>{label}</dt><dd>{show(row.message_stats, field ?? "", count)}</dd></div>
            ))}
          </dl>
        </Panel>
      </div>
    </>
  );
}

function Quorum({ vhost, name }: { vhost: string; name: string }): JSX.Element {
  const status = useApi<Record<string, unknown>[]>(path("queues", "quorum", vhost, name, "status"));
  const number = (field: string) => ({ id: field, label: field, number: true, cell: (row: Record<string, unknown>) => count(row[field]) });
  return (
    <Panel title="Raft group" tight>
      <Answer of={status}>
        {(rows) => (
          <Table
            caption="Members of the Raft group"
            rows={rows}
            columns={[
              { id: "node", label: "Member", cell: (row) => String(row["Node Name"] ?? DASH) },
              { id: "state", label: "State", cell: (row) => <State state={String(row["Raft State"] ?? "")} /> },
              { id: "membership", label: "Membership", cell: (row) => String(row["Membership"] ?? DASH) },
              ...["Term", "Last Log Index", "Commit Index", "Last Applied", "Snapshot Index", "Log Entries"].map(number),
              { id: "bytes", label: "Log size", number: true, cell: (row) => bytes(row["Log Bytes"]) },
            ]}
          />
        )}
      </Answer>
    </Panel>
  );
}

function QueueBindings({ vhost, name }: { vhost: string; name: string }): JSX.Element {
  const bindings = useApi<BindingRow[]>(path("queues", vhost, name, "bindings"));
  return (
    <Panel title="Bindings" tight aside={may(me.use(), "write", vhost, name) && <Bind vhost={vhost} name={name} />}>
      <Answer of={bindings}>
        {(rows) => (
          <BindingTable
            caption="Bindings to this queue"
            rows={rows}
            end={{ label: "From", cell: (row) => (row.source === "" ? <a href={href(["exchanges", row.vhost, "amq.default"])}>(default exchange)</a> : <NameLink to={href(["exchanges", row.vhost, row.source])} text={row.source} />) }}
            action={(row) => (row.source === "" ? null : <Unbind row={row} />)}
            empty={<Empty title="No exchange is bound to this queue." />}
          />
        )}
      </Answer>
    </Panel>
  );
}

const Bind = fresh(({ vhost, name }: { vhost: string; name: string }): JSX.Element => {
  const [source, setSource] = useState("");
  const [key, setKey] = useState("");
  const [lines, setLines] = useState("");
  const given = typedPairs(lines);
  return (
    <Action
      label="Bind"
      title={`Bind an exchange to ${name}`}
      confirm="Bind"
      command={source && given ? command(["declare", "binding"], [...inVhost(vhost), ["--key", key], ...toOptions("--argument", given)], [source, name]) : undefined}
      run={async () => void (await request("POST", path("bindings", vhost, "e", source, "q", name), { body: { routing_key: key, arguments: toObject(pairs(lines)) } }))}
    >
      <NameField kind="exchange" vhost={vhost} label="Exchange" value={source} set={setSource} required />
      <Text label="Binding key" value={key} set={setKey} />
      <Area label="Arguments" value={lines} set={setLines} hint="One name=value a line. A headers exchange compares them; x-match=any needs only one." />
    </Action>
  );
});
