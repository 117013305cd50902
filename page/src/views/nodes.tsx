/** The name of the cluster, and its nodes. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { path, request } from "../lib/api";
import { command } from "../lib/command";
import { administers, me } from "../lib/me";
import type { NodeRow, ShardRow } from "../lib/names";
import { useApi } from "../lib/poll";
import { DASH, bytes, count, duration, percent, short } from "../lib/text";
import { Action, fresh } from "../ui/actions";
import { BYTES, Chart, type Unit, valueLines } from "../ui/chart";
import { Answer, Badge, Name, Panel, Table, Text } from "../ui/parts";
import { SpanChoice, useSpan } from "../ui/spans";
import { NodeFacts, NodeState, answers } from "./overview";

const CHARTS: [string, string, Unit][] = [["Memory", "mem_used", BYTES], ["Disk free", "disk_free", BYTES], ["File descriptors", "fd_used", { words: "open files and sockets", format: short }]];

export function Nodes(): JSX.Element {
  const cluster = useApi<{ name: string }>(path("cluster-name"));
  const who = me.use();
  const span = useSpan();
  const nodes = useApi<NodeRow[]>(`${path("nodes")}?${span.query}`, { keep: true });
  return (
    <>
      <Panel title="Cluster" aside={cluster.data && administers(who) && <Rename name={cluster.data.name} />}>
        <Answer of={cluster}>{({ name }) => <p>Its name is <b class="name"><Name text={name} /></b>.</p>}</Answer>
      </Panel>
      <Panel title="Nodes" tight>
        <Answer of={nodes}>
          {(rows) => (
            <Table
              caption="Nodes"
              rows={rows}
              rowKey={(row) => row.name}
              columns={[
                { id: "name", label: "Name", cell: (row) => <b class="name"><Name text={row.name} /></b> },
                { id: "state", label: "State", cell: (row) => <NodeState node={row} /> },
                { id: "uptime", label: "Uptime", number: true, cell: (row) => duration(row.uptime) },
                { id: "memory", label: "Memory", number: true, cell: (row) => bytes(row.mem_used) },
                { id: "disk", label: "Disk free", number: true, cell: (row) => (row.disk_free === undefined ? DASH : bytes(row.disk_free)) },
                { id: "fds", label: "File descriptors", number: true, cell: (row) => count(row.fd_used) },
              ]}
            />
          )}
        </Answer>
      </Panel>
      {nodes.data?.filter(answers).map((node) => (
        <Panel title={`Node ${node.name}`}>
          <NodeFacts node={node} />
          <div class="over"><h3>Over time</h3><SpanChoice now={span} /></div>
          <div class="charts">
            {CHARTS.map(([title, field, unit]) => <Chart title={title} span={span.seconds} unit={unit} lines={valueLines(node, [[field, title]])} />)}
          </div>
          <h3>Shards</h3>
          <Shards shards={node.shards ?? []} />
        </Panel>
      ))}
    </>
  );
}

/** Each event loop has one thread. The work of a queue is done by one of them. */
function Shards({ shards }: { shards: ShardRow[] }): JSX.Element {
  return (
    <Table
      caption="Shards"
      rows={shards}
      rowKey={(row) => String(row.number)}
      columns={[
        { id: "shard", label: "Shard", cell: (row) => row.number },
        { id: "busy", label: "Busy", number: true, cell: (row) => percent(row.busy) },
        { id: "state", label: "State", cell: (row) => <Badge tone={row.at_limit ? "warn" : "good"}>{row.at_limit ? "at its limit" : "has time"}</Badge> },
        { id: "connections", label: "Connections", number: true, cell: (row) => count(row.connections) },
        { id: "queues", label: "Queues", number: true, cell: (row) => count(row.queues) },
      ]}
    />
  );
}

const Rename = fresh(({ name: now }: { name: string }): JSX.Element => {
  const [name, setName] = useState(now);
  return (
    <Action label="Rename" title="Rename the cluster" confirm="Rename" command={name ? command(["set", "cluster-name"], [], [name]) : undefined} run={async () => void (await request("PUT", path("cluster-name"), { body: { name } }))}>
      <Text label="Name" value={name} set={setName} required />
    </Action>
  );
});
