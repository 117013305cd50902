/** The overview: totals, rates, listeners and the node. */
import type { JSX } from "preact";
import { path } from "../lib/api";
import type { NodeRow, Overview, ShardRow } from "../lib/names";
import { useApi } from "../lib/poll";
import { DASH, bytes, count, duration, isNumber, percent, setBytes } from "../lib/text";
import { Chart, MESSAGES, PER_SECOND, rateLines, valueLines } from "../ui/chart";
import { Answer, Badge, Bar, Facts, NotPermitted, Panel, Table, Tile, show } from "../ui/parts";
import { SpanChoice, useSpan } from "../ui/spans";
import { Troubles } from "./troubles";

/** The part of the file descriptors from which on new clients will soon find none. */
const FDS_BAD = 0.9;

const MESSAGE_RATES: [string, string][] = [["publish", "Published"], ["confirm", "Confirmed"], ["deliver_get", "Delivered"], ["ack", "Acknowledged"]];
const LENGTHS: [string, string][] = [["messages_ready", "Ready"], ["messages_unacknowledged", "Unacknowledged"]];
const CHURN: [string, string][] = [["connection_created", "Connections opened"], ["connection_closed", "Connections closed"], ["channel_created", "Channels opened"], ["queue_declared", "Queues declared"], ["queue_created", "Queues created"], ["queue_deleted", "Queues deleted"]];

export function OverviewView(): JSX.Element {
  const span = useSpan("1 min");
  const overview = useApi<Overview>(`${path("overview")}?${span.query}`, { keep: true });
  const nodes = useApi<NodeRow[]>(path("nodes"));
  const data = overview.data;
  // The broker shows this only to users who may see what belongs to others. Its numbers for the rest are those of their own.
  const limited = data !== undefined && data.listeners === undefined;
  const own = limited ? "your own; others: not permitted" : undefined;
  return (
    <>
      <div class="listbar">
        <h1>Overview</h1>
        {data && <span class="total">{data.cluster_name} · Sluice {data.sluice_version ?? DASH} (as RabbitMQ {data.product_version ?? DASH}) · up {duration(data.uptime)}</span>}
      </div>
      <Troubles />
      {data?.missing_nodes?.length ? <p class="hint" role="status">These numbers are without {data.missing_nodes.join(", ")}, which did not answer.</p> : null}
      <Answer of={overview}>
        {(now) => (
          <div class="tiles">
            <Tile label="Ready" value={show(now.queue_totals, "messages_ready", count)} />
            <Tile label="Unacknowledged" value={show(now.queue_totals, "messages_unacknowledged", count)} />
            <Tile label="Queues" value={show(now.object_totals, "queues", count)} to="#/queues" />
            <Tile label="Connections" value={show(now.object_totals, "connections", count)} note={own} to="#/connections" />
            <Tile label="Sessions" value={show(now.object_totals, "sessions", count)} note={own} to="#/sessions" />
            <Tile label="Channels" value={count(channels(now))} note={own} to="#/channels" />
            <Tile label="Consumers" value={show(now.object_totals, "consumers", count)} note={own} to="#/consumers" />
            <Tile label="Exchanges" value={show(now.object_totals, "exchanges", count)} to="#/exchanges" />
          </div>
        )}
      </Answer>
      {data && (
        <Panel
          title="Messages"
          aside={<SpanChoice now={span} />}
        >
          <div class="charts">
            <Chart title="Rates" span={span.seconds} lines={rateLines(data.message_stats, MESSAGE_RATES)} unit={PER_SECOND} />
            <Chart title="In queues" span={span.seconds} lines={valueLines(data.queue_totals, LENGTHS)} unit={MESSAGES} />
          </div>
        </Panel>
      )}
      <div class="columns">
        <Panel title="Node">
          <Answer of={nodes}>{(rows) => <>{rows.filter(answers).map((node) => <NodeFacts node={node} />)}</>}</Answer>
        </Panel>
        <div>
          {data && (
            <Panel title="Listeners" tight>
              {limited ? <p class="hint"><NotPermitted>it needs the tag monitoring</NotPermitted></p> : <Table
                caption="Listeners"
                rows={data.listeners ?? []}
                columns={[
                  { id: "protocol", label: "Protocol", cell: (row) => row.protocol ?? DASH },
                  { id: "address", label: "Address", cell: (row) => row.ip_address ?? DASH },
                  { id: "port", label: "Port", number: true, cell: (row) => row.port ?? DASH },
                ]}
                empty={<p class="hint">There are no listeners.</p>}
              />}
            </Panel>
          )}
          {data && (
            <Panel title={limited ? "Since the start, in your virtual hosts" : "Since the start"}>
              <dl class="numbers">
                {[...MESSAGE_RATES, ["drop_unroutable", "Dropped, not routable"], ["return_unroutable", "Returned, not routable"], ["redeliver", "Redelivered"]].map(([field, label]) => (
                  <div><dt>{label}</dt><dd>{show(data.message_stats, field ?? "", count)}</dd></div>
                ))}
                {CHURN.map(([field, label]) => <div><dt>{label}</dt><dd>{limited ? <NotPermitted /> : show(data.churn_rates, field, count)}</dd></div>)}
              </dl>
            </Panel>
          )}
        </div>
      </div>
    </>
  );
}

/** Returns the number of channels of AMQP 0.9.1. The broker counts sessions of AMQP 1.0 as channels, too, as RabbitMQ does. */
function channels({ object_totals: totals }: Overview): number | undefined {
  const [all, sessions] = [totals?.["channels"], totals?.["sessions"]];
  return isNumber(all) && isNumber(sessions) ? all - sessions : undefined;
}

/** The number of shards, and how many of them have no time left. */
function ShardsAtLimit({ shards }: { shards: ShardRow[] }): JSX.Element {
  const full = shards.filter((shard) => shard.at_limit).length;
  return <>{shards.length > 0 ? count(shards.length) : DASH}{full > 0 && <> <Badge tone="warn">{shards.length === 1 ? "at its limit" : `${full} at the limit`}</Badge></>}</>;
}

/** How busy the shard is that has the least time left. */
function BusiestShard({ shards }: { shards: ShardRow[] }): JSX.Element | null {
  const [busiest] = shards.filter((shard) => isNumber(shard.busy)).sort((a, b) => (b.busy ?? 0) - (a.busy ?? 0));
  if (!busiest) return null;
  const text = shards.length === 1 ? percent(busiest.busy) : `${percent(busiest.busy)} of shard ${busiest.number}`;
  return <Bar label={shards.length === 1 ? "Shard busy" : "Busiest shard"} used={busiest.busy} limit={1} text={text} tone={busiest.at_limit ? "warn" : undefined} />;
}

/** Returns true for the node that answers. Others of its cluster show their figures themselves. */
export function answers(node: NodeRow): boolean {
  return node.os_pid !== undefined;
}

export function NodeState({ node }: { node: NodeRow }): JSX.Element {
  if (node.running !== false) return <Badge tone="good">running</Badge>;
  return <><Badge tone="bad">not in sight</Badge> {node.state_text}</>;
}

/** The state of a node, and what it uses. */
export function NodeFacts({ node }: { node: NodeRow }): JSX.Element {
  const alarms = [node.mem_alarm && "memory", node.disk_free_alarm && "disk", node.certificate_alarm && "certificate"].filter(Boolean).join(", ");
  const memory = useApi<{ budgets?: Record<string, unknown> }>(path("nodes", node.name, "memory"));
  const parts = Object.entries(memory.data?.budgets ?? {}).filter((entry): entry is [string, number] => typeof entry[1] === "number").sort((a, b) => b[1] - a[1]);
  const of = (used: unknown, limit: unknown, format: (value: unknown) => string) => (limit === undefined || limit === null ? format(used) : `${format(used)} of ${format(limit)}`);
  return (
    <>
      <Facts
        items={[
          ["Name", node.name],
          ["State", <NodeState node={node} />],
          ["Alarms", alarms ? <Badge tone="bad">{alarms}</Badge> : "none"],
          ["Uptime", duration(node.uptime)],
          ["Processors", count(node.processors)],
          ["Shards", <ShardsAtLimit shards={node.shards ?? []} />],
          ["Process", node.os_pid],
          ["Disk free", node.disk_free === undefined ? DASH : `${bytes(node.disk_free)} (alarm below ${setBytes(node.disk_free_limit)})`],
        ]}
      />
      <div class="bars">
        <Bar label="Memory" used={node.mem_used} limit={node.mem_limit} text={of(node.mem_used, node.mem_limit, bytes)} tone={node.mem_alarm ? "bad" : undefined} />
        <BusiestShard shards={node.shards ?? []} />
        <Bar label="File descriptors" used={node.fd_used} limit={node.fd_total} text={of(node.fd_used, node.fd_total, count)} tone={isNumber(node.fd_used) && isNumber(node.fd_total) && node.fd_used > FDS_BAD * node.fd_total ? "bad" : undefined} />
      </div>
      <h3>What memory is used for</h3>
      <Answer of={memory}>
        {() => (
          <div class="bars">
            {parts.map(([name, used]) => {
              const limit = node.budgets?.find((budget) => budget.name === name)?.limit;
              return <Bar label={name.replaceAll("_", " ")} used={used} limit={limit ?? node.mem_used} text={of(used, limit, bytes)} />;
            })}
          </div>
        )}
      </Answer>
    </>
  );
}
