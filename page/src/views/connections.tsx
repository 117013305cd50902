/** Connections, with their sessions and links. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { path, request } from "../lib/api";
import { command } from "../lib/command";
import { administers, me } from "../lib/me";
import type { ChannelRow, ConnectionRow } from "../lib/names";
import { href } from "../lib/place";
import { useApi } from "../lib/poll";
import { DASH, bytes, bytesRate, count, duration, isNumber, time, visible } from "../lib/text";
import { vhost as chosenVhost } from "../lib/vhost";
import { Action, Actions, Named, done, fresh } from "../ui/actions";
import { BYTES_PER_SECOND, Chart, rateLines } from "../ui/chart";
import { List, OwnOnly, type ListColumn, rateColumn } from "../ui/list";
import { Absent, Answer, Empty, Facts, Fields, Name, NameLink, Panel, State, Table, Text, Why, present, show } from "../ui/parts";
import { BRIEF, SpanChoice, useSpan } from "../ui/spans";
import { Session, sessionHref } from "./sessions";
import { Trace } from "./trace";
import { Explanation } from "./why";

const DATA: [string, string][] = [["recv_oct", "From the client"], ["send_oct", "To the client"]];

export function Connections(): JSX.Element {
  const vhost = chosenVhost.use();
  const columns: ListColumn<ConnectionRow>[] = [
    { id: "name", label: "Connection", fields: ["name"], sort: "name", cell: (row) => <NameLink to={href(["connections", row.name])} text={row.name} /> },
    { id: "container", label: "Container or client", standard: true, fields: ["container_id", "client_properties.connection_name", "client_properties.product"], cell: (row) => <Name text={row.container_id ?? String(row.client_properties?.["connection_name"] ?? row.client_properties?.["product"] ?? "")} /> },
    { id: "user", label: "User", standard: true, fields: ["user"], sort: "user", cell: (row) => <Name text={row.user} /> },
    { id: "vhost", label: "Virtual host", standard: vhost === "", fields: ["vhost"], sort: "vhost", cell: (row) => <Name text={row.vhost} /> },
    { id: "protocol", label: "Protocol", standard: true, fields: ["protocol"], sort: "protocol", cell: (row) => <span class="nowrap">{(row.protocol ?? DASH).replace(/-(\d)/g, ".$1")}</span> },
    { id: "state", label: "State", standard: true, fields: ["state"], sort: "state", cell: (row) => <State state={row.state} /> },
    { id: "channels", label: "Sessions", number: true, standard: true, fields: ["channels"], sort: "channels", cell: (row) => count(row.channels) },
    { id: "tls", label: "TLS", fields: ["ssl", "ssl_protocol"], sort: "ssl", cell: (row) => (row.ssl ? (row.ssl_protocol ?? "yes") : "no") },
    rateColumn("recv_oct", "From client", true, "", bytesRate),
    rateColumn("send_oct", "To client", true, "", bytesRate),
    { id: "connected_at", label: "Connected", fields: ["connected_at"], sort: "connected_at", number: true, cell: (row) => time(row.connected_at) },
    { id: "why", label: "", standard: true, fields: [], cell: (row) => <Why kind="connection" name={row.name} /> },
  ];
  return (
    <List
      key={vhost}
      title="Connections"
      target={vhost === "" ? path("connections") : path("vhosts", vhost, "connections")}
      columns={columns}
      keyFields={["name"]}
      rowKey={(row) => row.name}
      only={[{ param: "problem", label: "Only those that are held back or blocked" }, { param: "state", label: "State", values: ["running", "blocked", "flow"] }]}
      note={<OwnOnly what="connections" />}
      empty={<Empty title="Nobody is connected." />}
    />
  );
}

export function ConnectionView({ name }: { name: string }): JSX.Element {
  const span = useSpan();
  const connection = useApi<ConnectionRow>(`${path("connections", name)}?${span.query}`, { keep: true });
  const row = present(connection);
  const who = me.use();
  if (!row) return <Absent what="connection" name={name} list="#/connections" label="Connections" of={connection} />;
  return (
    <>
      <p class="crumbs"><a href="#/connections">Connections</a></p>
      <div class="listbar">
        <h1 class="name"><Name text={name} /></h1>
        <State state={row.state} />
        <Actions>
          {administers(who) && <Trace of={{ kind: "connection", vhost: row.vhost, name }} />}
          {(administers(who) || row.user === who?.name) && <Close name={name} user={row.user} />}
        </Actions>
      </div>
      <Panel title="Why does nothing move?"><Explanation subject={{ kind: "connection", name }} /></Panel>
      <Answer of={connection}>
        {(data) => (
          <>
            <Panel title="What it is">
              <Facts
                items={[
                  ["User", <><Name text={data.user} /> ({data.auth_mechanism ?? DASH})</>],
                  ["Virtual host", <Name text={data.vhost} />],
                  ["Protocol", (data.protocol ?? DASH).replace(/-(\d)/g, ".$1")],
                  ["Container", data.container_id ? <Name text={data.container_id} /> : DASH],
                  ["Connected", isNumber(data.connected_at) ? `${time(data.connected_at)}, ${duration(Date.now() - data.connected_at)} ago` : DASH],
                  ["Received", bytes(data.recv_oct)],
                  ["Sent", bytes(data.send_oct)],
                  ["TLS", data.ssl ? `${data.ssl_protocol ?? ""} ${data.ssl_cipher ?? ""}` : "no"],
                  ["Largest frame", bytes(data.frame_max)],
                  ["Most sessions or channels", count(data.channel_max)],
                  ["Client", <Fields map={data.client_properties} />],
                ]}
              />
            </Panel>
            <Panel title="Data over time" aside={<SpanChoice now={span} longest={BRIEF} />}>
              <div class="charts one"><Chart title="Data" span={span.seconds} unit={BYTES_PER_SECOND} lines={rateLines(data, DATA)} /></div>
            </Panel>
            {(data.sessions ?? []).map((session) => <Session session={session} connection={data} aside={<a href={sessionHref(data.name, session.channel_number)}>This session alone</a>} />)}
            {data.sessions === undefined && <ConnectionChannels name={name} />}
            {data.sessions?.length === 0 && <Empty title="The client has begun no session." />}
          </>
        )}
      </Answer>
    </>
  );
}

const Close = fresh(({ name, user }: { name: string; user: string }): JSX.Element => {
  const [reason, setReason] = useState("");
  return (
    <Action
      label="Close"
      title="Close this connection?"
      confirm="Close the connection"
      danger
      command={command(["close", "connection"], reason ? [["--reason", reason]] : [], [name])}
      run={async () => {
        await request("DELETE", path("connections", name), { headers: reason ? { "x-reason": reason } : {} });
        done(<>The connection <b class="name"><Name text={name} /></b> was closed.</>, "#/connections");
      }}
    >
      <Named before="The broker closes the connection" name={name} after={` of the user ${visible(user)}. Most clients connect again.`} />
      <Text label="Reason" value={reason} set={setReason} pattern="[ -~]*" hint="The client gets it, and the broker's log. Letters, digits and signs of ASCII." />
    </Action>
  );
});

function ConnectionChannels({ name }: { name: string }): JSX.Element {
  const channels = useApi<ChannelRow[]>(path("connections", name, "channels"));
  const number = (field: string, label: string) => ({ id: field, label, number: true, cell: (row: ChannelRow) => show(row, field, count) });
  return (
    <Panel title="Channels" tight>
      <Answer of={channels}>
        {(rows) => (
          <Table
            caption="Channels of this connection"
            rows={rows}
            rowKey={(row) => row.name}
            columns={[
              { id: "name", label: "Channel", cell: (row) => <NameLink to={href(["channels", row.name])} text={String(row.number ?? row.name)} /> },
              { id: "state", label: "State", cell: (row) => <State state={row.state} /> },
              number("consumer_count", "Consumers"),
              number("prefetch_count", "Prefetch"),
              number("messages_unacknowledged", "Unacked"),
              number("messages_unconfirmed", "Unconfirmed"),
            ]}
            empty={<Empty title="The client has opened no channel." />}
          />
        )}
      </Answer>
    </Panel>
  );
}
