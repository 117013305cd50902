/** Sessions of AMQP 1.0 over all connections, and the windows and links of one. */
import type { ComponentChildren, JSX } from "preact";
import { path } from "../lib/api";
import type { ConnectionRow, LinkRow, OwnedSessionRow, SessionRow } from "../lib/names";
import { href } from "../lib/place";
import { useApi } from "../lib/poll";
import { DASH, bytes, count, duration } from "../lib/text";
import { vhost as chosenVhost } from "../lib/vhost";
import { Chart, PER_SECOND, rateLines } from "../ui/chart";
import { List, OwnOnly, type ListColumn, rateColumn } from "../ui/list";
import { BRIEF, SpanChoice, useSpan } from "../ui/spans";
import { Absent, Answer, Bar, Empty, Facts, Name, NameLink, Panel, Table, Why, present, show } from "../ui/parts";

/**
 * The transfers of a window that is drawn as full: as many as the broker's own window has by default. Many clients have windows of
 * 2³¹ transfers, beside which every other window would look closed.
 */
const FULL_WINDOW = 400;

/** What passes over a session or a channel: published by the client, confirmed to it, delivered to it, acknowledged by it. */
export const CHANNEL_RATES: [string, string][] = [["publish", "Published"], ["confirm", "Confirmed"], ["deliver_get", "Delivered"], ["ack", "Acknowledged"]];

/** Returns the address of a session. It is named as the broker names channels. */
export function sessionHref(connection: string, number: number): string {
  return href(["sessions", `${connection} (${number})`]);
}

export function Sessions(): JSX.Element {
  const vhost = chosenVhost.use();
  const window = (field: "incoming_window" | "remote_incoming_window", label: string): ListColumn<OwnedSessionRow> => ({ id: field, label, standard: true, fields: [field], sort: field, cell: (row) => <Window label="" of={row[field]} unit="" /> });
  const number = (field: string, label: string, standard: boolean): ListColumn<OwnedSessionRow> => ({ id: field, label, number: true, standard, fields: [field], sort: field, cell: (row) => show(row, field, count) });
  const links = (field: "incoming_links" | "outgoing_links", label: string): ListColumn<OwnedSessionRow> => ({ id: field, label, number: true, standard: true, fields: [`${field}.handle`], cell: (row) => count(row[field]?.length) });
  const columns: ListColumn<OwnedSessionRow>[] = [
    { id: "name", label: "Session", fields: ["name"], sort: "name", cell: (row) => <NameLink to={href(["sessions", row.name])} text={row.name} /> },
    { id: "container", label: "Container", standard: true, fields: ["container_id"], sort: "container_id", cell: (row) => <Name text={row.container_id ?? ""} /> },
    { id: "user", label: "User", fields: ["user"], sort: "user", cell: (row) => <Name text={row.user ?? ""} /> },
    { id: "vhost", label: "Virtual host", standard: vhost === "", fields: ["vhost"], sort: "vhost", cell: (row) => <Name text={row.vhost ?? ""} /> },
    window("incoming_window", "Broker’s window"),
    window("remote_incoming_window", "Client’s window"),
    links("incoming_links", "Publishers"),
    links("outgoing_links", "Consumers"),
    number("outgoing_unsettled_deliveries", "Unsettled", true),
    number("outgoing_pending_deliveries", "Wait for the window", false),
    rateColumn("publish", "In", false),
    rateColumn("deliver_get", "Out", false),
    { id: "why", label: "", standard: true, fields: ["connection_details"], cell: (row) => <Why kind="connection" name={row.connection_details.name} /> },
  ];
  return (
    <List
      key={vhost}
      title="Sessions"
      target={vhost === "" ? path("sessions") : path("vhosts", vhost, "sessions")}
      columns={columns}
      keyFields={["name"]}
      rowKey={(row) => row.name}
      filter="session, container or user"
      note={<OwnOnly what="sessions" />}
      empty={<Empty title="There are no sessions.">Sessions belong to AMQP 1.0. Clients of AMQP 0.9.1 have <a href="#/channels">channels</a>.</Empty>}
    />
  );
}

export function SessionView({ name }: { name: string }): JSX.Element {
  const [, of = name, number = ""] = /^(.*) \((\d+)\)$/s.exec(name) ?? [];
  const span = useSpan();
  const connection = useApi<ConnectionRow>(`${path("connections", of)}?${span.query}`, { keep: true });
  if (!present(connection)) return <Absent what="session" name={name} list="#/sessions" label="Sessions" of={connection} />;
  return (
    <>
      <p class="crumbs"><a href="#/sessions">Sessions</a></p>
      <h1 class="name"><Name text={name} /></h1>
      <Answer of={connection}>
        {(row) => {
          const session = row.sessions?.find((one) => String(one.channel_number) === number);
          return (
            <>
              <Panel title="Whose it is" aside={<Why kind="connection" name={of} />}>
                <Facts
                  items={[
                    ["Connection", <NameLink to={href(["connections", of])} text={of} />],
                    ["Container", row.container_id ? <Name text={row.container_id} /> : DASH],
                    ["User", <Name text={row.user} />],
                    ["Virtual host", <Name text={row.vhost} />],
                  ]}
                />
              </Panel>
              {session && (
                <Panel title="Messages over time" aside={<SpanChoice now={span} longest={BRIEF} />}>
                  <div class="charts one"><Chart title="Rates" span={span.seconds} unit={PER_SECOND} lines={rateLines(session.message_stats, CHANNEL_RATES)} /></div>
                </Panel>
              )}
              {session ? <Session session={session} connection={row} aside={null} /> : <Empty title="This session has ended." />}
            </>
          );
        }}
      </Answer>
    </>
  );
}

function Window({ label, of, unit }: { label: string; of: number | undefined; unit: string }): JSX.Element {
  return <Bar label={label} used={of} limit={FULL_WINDOW} text={`${count(of)}${unit}`} />;
}

/** A session of a connection, with its windows and links. */
export function Session({ session, connection, aside }: { session: SessionRow; connection: ConnectionRow; aside: ComponentChildren }): JSX.Element {
  const links = [...session.incoming_links, ...session.outgoing_links];
  const names = (connection.sessions ?? []).flatMap((one) => [...one.incoming_links, ...one.outgoing_links]).map((link) => link.link_name);
  const mostCredit = Math.max(1, ...links.map((link) => link.credit ?? 0));
  return (
    <Panel title={`Session ${session.channel_number}`} aside={aside}>
      <div class="bars">
        <Window label="Window of the broker" of={session.incoming_window} unit=" transfers" />
        <Window label="Window of the client" of={session.remote_incoming_window} unit=" transfers" />
      </div>
      <Facts items={[["Deliveries not settled", show(session, "outgoing_unsettled_deliveries", count)], ["Deliveries that wait for the window", show(session, "outgoing_pending_deliveries", count)], ["Highest handle", count(session.handle_max)]]} />
      <Links title="Publishers" links={session.incoming_links} most={mostCredit} connection={connection} names={names} />
      <Links title="Consumers" links={session.outgoing_links} most={mostCredit} connection={connection} names={names} />
    </Panel>
  );
}

/** `names` are the names of all links of the connection. */
function Links({ title, links, most, connection, names }: { title: string; links: LinkRow[]; most: number; connection: ConnectionRow; names: string[] }): JSX.Element | null {
  if (links.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <Table
        caption={`${title} of the session`}
        rows={links}
        rowKey={(row) => `${title}${row.handle}`}
        columns={[
          { id: "name", label: "Link", cell: (row) => <b class="name"><Name text={row.link_name} /></b> },
          { id: "address", label: "Address", cell: (row) => (row.queue_name ? <NameLink to={href(["queues", connection.vhost, row.queue_name])} text={row.queue_name} /> : <Name text={row.target_address ?? row.source_address ?? DASH} />) },
          { id: "credit", label: "Credit", cell: (row) => <Bar label="" used={row.credit} limit={most} text={count(row.credit)} /> },
          { id: "unsettled", label: "Waiting", number: true, cell: (row) => count(row.unconfirmed_messages ?? row.unsettled_deliveries) },
          { id: "age", label: "Oldest", number: true, cell: (row) => duration(row.unconfirmed_age_ms ?? row.unacknowledged_age_ms) },
          { id: "count", label: "Messages", number: true, cell: (row) => count(row.delivery_count) },
          { id: "size", label: "Largest message", number: true, cell: (row) => (row.max_message_size ? bytes(row.max_message_size) : "any") },
          { id: "settle", label: "Settled by sender", cell: (row) => row.snd_settle_mode ?? (row.send_settled ? "settled" : "unsettled") },
          { id: "why", label: "", cell: (row) => (names.filter((name) => name === row.link_name).length === 1 ? <Why kind="link" name={row.link_name} vhost={connection.vhost} connection={connection.name} /> : null) },
        ]}
      />
    </>
  );
}
