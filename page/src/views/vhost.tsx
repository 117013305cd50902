/** One virtual host: its numbers over time, its limits, and who may use it. */
import type { JSX } from "preact";
import { path } from "../lib/api";
import { useApi } from "../lib/poll";
import { DASH, bytes, count, visible } from "../lib/text";
import { vhost as chosenVhost } from "../lib/vhost";
import { AdminOnly } from "../ui/actions";
import { BYTES_PER_SECOND, Chart, MESSAGES, PER_SECOND, rateLines, valueLines } from "../ui/chart";
import { Absent, Answer, Badge, Empty, Facts, Name, Panel, Tile, present, show } from "../ui/parts";
import { BRIEF, SpanChoice, useSpan } from "../ui/spans";
import { DeleteVhost, EditVhost, SetLimit, type VhostRow } from "./admin";
import { CHANNEL_RATES } from "./sessions";
import { PermissionTable, type PermissionRow, SetPermission } from "./users";

const LENGTHS: [string, string][] = [["messages_ready", "Ready"], ["messages_unacknowledged", "Unacknowledged"]];
const DATA: [string, string][] = [["recv_oct", "From clients"], ["send_oct", "To clients"]];
const LISTS: [string, string][] = [["queues", "Queues and streams"], ["exchanges", "Exchanges"], ["connections", "Connections"], ["consumers", "Consumers"], ["admin/policies", "Policies"]];

export function VhostView({ name }: { name: string }): JSX.Element {
  const span = useSpan();
  const vhost = useApi<VhostRow>(`${path("vhosts", name)}?${span.query}`, { keep: true });
  const permissions = useApi<PermissionRow[]>(path("vhosts", name, "permissions"));
  const limits = useApi<{ value: Record<string, number> }[]>(path("vhost-limits", name));
  const row = present(vhost);
  if (!row) return <Absent what="virtual host" name={name} list="#/admin/vhosts" label="Virtual hosts" of={vhost} />;
  const limit = (of: string) => {
    const value = limits.data?.[0]?.value[of];
    return limits.data === undefined ? DASH : value === undefined ? "no limit" : count(value);
  };
  return (
    <>
      <p class="crumbs"><a href="#/admin/vhosts">Virtual hosts</a></p>
      <div class="listbar">
        <h1 class="name"><Name text={name} /></h1>
        {row.deleting && <Badge tone="warn">being deleted</Badge>}
        <AdminOnly>
          <div class="actions">
            <EditVhost row={row} />
            <DeleteVhost name={name} />
          </div>
        </AdminOnly>
      </div>
      <Answer of={vhost}>
        {(data) => (
          <>
            <div class="tiles">
              <Tile label="Ready" value={show(data, "messages_ready", count)} />
              <Tile label="Unacknowledged" value={show(data, "messages_unacknowledged", count)} />
              <Tile label="From clients" value={show(data, "recv_oct", bytes)} />
              <Tile label="To clients" value={show(data, "send_oct", bytes)} />
            </div>
            <p class="actions">
              {LISTS.map(([view, label]) => <a class="button" href={`#/${view}`} aria-label={`${label} of ${visible(name)}`} onClick={() => chosenVhost.set(name)}>{label}</a>)}
            </p>
            <Panel title="Over time" aside={<SpanChoice now={span} longest={BRIEF} />}>
              <div class="charts">
                <Chart title="Rates" span={span.seconds} unit={PER_SECOND} lines={rateLines(data.message_stats, CHANNEL_RATES)} />
                <Chart title="In queues" span={span.seconds} unit={MESSAGES} lines={valueLines(data, LENGTHS)} />
                <Chart title="Data" span={span.seconds} unit={BYTES_PER_SECOND} lines={rateLines(data, DATA)} />
              </div>
            </Panel>
            <Panel title="What it is" aside={<AdminOnly><SetLimit kind="vhost" of={name} /></AdminOnly>}>
              <Facts
                items={[
                  ["Description", data.description ? <Name text={data.description} /> : DASH],
                  ["Tags", <Name text={(data.tags ?? []).join(", ") || DASH} />],
                  ["Default queue type", data.default_queue_type ?? DASH],
                  ["Protected from deletion", data.protected_from_deletion ? "yes" : "no"],
                  ["Connections at most", limit("max-connections")],
                  ["Queues at most", limit("max-queues")],
                ]}
              />
            </Panel>
          </>
        )}
      </Answer>
      <Panel title="Who may use it" tight aside={<AdminOnly><SetPermission vhost={name} /></AdminOnly>}>
        <Answer of={permissions}>{(rows) => <PermissionTable rows={rows} empty={<Empty title="No user may use this virtual host yet." />} />}</Answer>
      </Panel>
    </>
  );
}
