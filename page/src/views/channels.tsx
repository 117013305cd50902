/** Channels of AMQP 0.9.1, and consumers of all protocols. */
import type { ComponentChildren, JSX } from "preact";
import { path } from "../lib/api";
import type { ChannelRow, ConsumerRow } from "../lib/names";
import { href } from "../lib/place";
import { useApi } from "../lib/poll";
import { DASH, count, duration } from "../lib/text";
import { vhost as chosenVhost } from "../lib/vhost";
import { Chart, PER_SECOND, rateLines } from "../ui/chart";
import { List, OwnOnly, type ListColumn } from "../ui/list";
import { Absent, Answer, Badge, type Column, Empty, Facts, Fields, Name, NameLink, Panel, State, Table, Why, present, show } from "../ui/parts";
import { BRIEF, SpanChoice, useSpan } from "../ui/spans";
import { CHANNEL_RATES } from "./sessions";

const number = <T,>(field: string, label: string, standard = false): ListColumn<T> => ({ id: field, label, number: true, standard, fields: [field], sort: field, cell: (row) => show(row, field, count) });

/** How long the oldest message waits. Each message has no time of its own, so the age may be a little too large. */
const age = <T,>(field: string, label: string): ListColumn<T> => ({ id: field, label, number: true, standard: true, fields: [field], sort: field, cell: (row) => show(row, field, duration) });

export function Channels(): JSX.Element {
  const vhost = chosenVhost.use();
  const columns: ListColumn<ChannelRow>[] = [
    { id: "name", label: "Channel", fields: ["name"], sort: "name", cell: (row) => <NameLink to={href(["channels", row.name])} text={row.name} /> },
    { id: "user", label: "User", standard: true, fields: ["user"], sort: "user", cell: (row) => <Name text={row.user ?? ""} /> },
    { id: "vhost", label: "Virtual host", standard: vhost === "", fields: ["vhost"], sort: "vhost", cell: (row) => <Name text={row.vhost ?? ""} /> },
    { id: "state", label: "State", standard: true, fields: ["state"], sort: "state", cell: (row) => <State state={row.state} /> },
    { id: "mode", label: "Mode", standard: true, fields: ["confirm", "transactional"], cell: (row) => (row.confirm ? "confirms" : row.transactional ? "transactions" : DASH) },
    number("consumer_count", "Consumers", true),
    number("prefetch_count", "Prefetch", true),
    number("messages_unacknowledged", "Unacked", true),
    age("unacknowledged_age_ms", "Oldest unacked"),
    number("messages_unconfirmed", "Unconfirmed", true),
    age("unconfirmed_age_ms", "Oldest unconfirmed"),
    number("messages_uncommitted", "Uncommitted"),
    number("global_prefetch_count", "Shared prefetch"),
    { id: "why", label: "", standard: true, fields: ["connection_details"], cell: (row) => (row.connection_details?.name ? <Why kind="connection" name={row.connection_details.name} /> : null) },
  ];
  return (
    <List key={vhost} title="Channels" target={vhost === "" ? path("channels") : path("vhosts", vhost, "channels")} columns={columns} keyFields={["name"]} rowKey={(row) => row.name} only={[{ param: "state", label: "State", values: ["running", "flow"] }]} note={<OwnOnly what="channels" />} empty={<Empty title="There are no channels.">Channels belong to AMQP 0.9.1. Clients of AMQP 1.0 have <a href="#/sessions">sessions</a>.</Empty>} />
  );
}

export function ChannelView({ name }: { name: string }): JSX.Element {
  const span = useSpan();
  const channel = useApi<ChannelRow>(`${path("channels", name)}?${span.query}`, { keep: true });
  const connection = channel.data?.connection_details?.name;
  if (!present(channel)) return <Absent what="channel" name={name} list="#/channels" label="Channels" of={channel} />;
  return (
    <>
      <p class="crumbs"><a href="#/channels">Channels</a></p>
      <h1 class="name"><Name text={name} /></h1>
      <Answer of={channel}>
        {(row) => (
          <>
            <Panel title="Numbers" aside={connection ? <Why kind="link" name={`channel ${row.number ?? ""}`} connection={connection} {...(row.vhost ? { vhost: row.vhost } : {})} /> : null}>
              <Facts
                items={[
                  ["Connection", connection ? <NameLink to={href(["connections", connection])} text={connection} /> : DASH],
                  ["User", <Name text={row.user ?? ""} />],
                  ["Virtual host", <Name text={row.vhost ?? ""} />],
                  ["State", <State state={row.state} />],
                  ["Mode", row.confirm ? "confirms" : row.transactional ? "transactions" : DASH],
                  ["Prefetch", count(row.prefetch_count)],
                  ["Shared prefetch", count(row.global_prefetch_count)],
                  ["Unacknowledged", count(row.messages_unacknowledged)],
                  ["The oldest of them waits for", duration(row.unacknowledged_age_ms)],
                  ["Unconfirmed", count(row.messages_unconfirmed)],
                  ["The oldest unconfirmed one waits for", duration(row.unconfirmed_age_ms)],
                  ["Uncommitted messages", count(row.messages_uncommitted)],
                  ["Uncommitted acknowledgements", count(row.acks_uncommitted)],
                ]}
              />
            </Panel>
            <Panel title="Messages over time" aside={<SpanChoice now={span} longest={BRIEF} />}>
              <div class="charts one"><Chart title="Rates" span={span.seconds} unit={PER_SECOND} lines={rateLines(row.message_stats, CHANNEL_RATES)} /></div>
            </Panel>
            <Panel title="Consumers" tight><ConsumerTable rows={row.consumer_details ?? []} empty={<Empty title="This channel consumes from no queue." />} /></Panel>
          </>
        )}
      </Answer>
    </>
  );
}

/** Returns the address of the client, with which the name of a connection begins. */
function client(connection: string): string {
  return connection.split(" -> ")[0] || connection;
}

const CONSUMER_COLUMNS: ListColumn<ConsumerRow>[] = [
  { id: "tag", label: "Consumer", standard: true, fields: ["consumer_tag"], sort: "consumer_tag", cell: (row) => <b class="name"><Name text={row.consumer_tag} /></b> },
  { id: "queue", label: "Queue", standard: true, fields: ["queue"], sort: "queue.name", cell: (row) => <NameLink to={href(["queues", row.queue.vhost, row.queue.name])} text={row.queue.name} /> },
  { id: "activity", label: "Activity", standard: true, fields: ["activity_status", "active"], sort: "activity_status", cell: (row) => (row.activity_status === "single_active" ? <Badge tone="good">the active one</Badge> : row.activity_status === "waiting" ? <Badge>waits for its turn</Badge> : (row.activity_status ?? DASH)) },
  { id: "ack", label: "Acknowledges", fields: ["ack_required"], sort: "ack_required", cell: (row) => (row.ack_required === undefined ? DASH : row.ack_required ? "yes" : "no") },
  number("prefetch_count", "Prefetch or credit", true),
  number("messages_unacknowledged", "Unacked", true),
  age("unacknowledged_age_ms", "Oldest"),
  { id: "exclusive", label: "Exclusive", fields: ["exclusive"], sort: "exclusive", cell: (row) => (row.exclusive ? "yes" : "no") },
  { id: "arguments", label: "Arguments", fields: ["arguments"], cell: (row) => <Fields map={row.arguments} /> },
  { id: "user", label: "User", fields: ["channel_details"], sort: "channel_details.user", cell: (row) => <Name text={row.channel_details?.user ?? ""} /> },
  { id: "connection", label: "Client", standard: true, fields: ["channel_details"], sort: "channel_details.name", cell: (row) => (row.channel_details?.connection_name ? <a class="nowrap" href={href(["connections", row.channel_details.connection_name])}><Name text={client(row.channel_details.connection_name)} /></a> : DASH) },
  { id: "why", label: "", standard: true, fields: ["channel_details"], cell: (row) => <Why kind="link" name={row.consumer_tag} vhost={row.queue.vhost} {...(row.channel_details?.connection_name ? { connection: row.channel_details.connection_name } : {})} /> },
];

const keyOf = (row: ConsumerRow) => `${row.channel_details?.name ?? ""}\u0000${row.consumer_tag}`;

/** The consumers of one channel, or with `ofQueue` of one queue, which is not named again. */
export function ConsumerTable({ rows, ofQueue = false, empty }: { rows: ConsumerRow[]; ofQueue?: boolean; empty: ComponentChildren }): JSX.Element {
  const columns = CONSUMER_COLUMNS.filter((column) => (column.standard || column.id === "ack" || column.id === "arguments") && !(ofQueue && column.id === "queue")) as Column<ConsumerRow>[];
  return <Table caption="Consumers" rows={rows} rowKey={keyOf} columns={columns} empty={empty} />;
}

export function Consumers(): JSX.Element {
  const vhost = chosenVhost.use();
  return (
    <List key={vhost} title="Consumers" target={vhost === "" ? path("consumers") : path("consumers", vhost)} columns={CONSUMER_COLUMNS} keyFields={["consumer_tag", "queue", "channel_details"]} rowKey={keyOf} filter="consumer, queue, client or user" note={<OwnOnly what="consumers" />} empty={<Empty title="There are no consumers." />} />
  );
}
