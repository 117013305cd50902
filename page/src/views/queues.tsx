/** The list of queues and streams. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { path, put } from "../lib/api";
import { command, inVhost } from "../lib/command";
import { settings } from "../lib/effective";
import { mayAny, me } from "../lib/me";
import type { QueueRow } from "../lib/names";
import { pairs, toObject, toOptions, typedPairs } from "../lib/pairs";
import { href } from "../lib/place";
import { useApi } from "../lib/poll";
import { DASH, bytes, count, visible } from "../lib/text";
import { vhost as chosenVhost } from "../lib/vhost";
import { Action, fresh, made } from "../ui/actions";
import { List, type ListColumn, rateColumn } from "../ui/list";
import { type Lines, Picker, VhostField, useKnown, useLines } from "../ui/picker";
import { Badge, Check, Empty, Fields, Name, NameLink, Select, State, Text, Why, show } from "../ui/parts";

const keyOf = (row: QueueRow) => `${row.vhost}\u0000${row.name}`;

export function Queues(): JSX.Element {
  const vhost = chosenVhost.use();
  const number = (field: string, label: string, standard: boolean, format = count): ListColumn<QueueRow> => ({ id: field, label, number: true, standard, fields: [field], sort: field, cell: (row) => show(row, field, format) });
  const columns: ListColumn<QueueRow>[] = [
    { id: "name", label: "Name", fields: ["name", "vhost"], sort: "name", cell: (row) => <NameLink to={href(["queues", row.vhost, row.name])} text={row.name} /> },
    ...(vhost === "" ? [{ id: "vhost", label: "Virtual host", standard: true, fields: ["vhost"], sort: "vhost", cell: (row: QueueRow) => <Name text={row.vhost} /> }] : []),
    { id: "type", label: "Type", standard: true, fields: ["type"], sort: "type", cell: (row) => <Badge tone="plain">{row.type}</Badge> },
    { id: "state", label: "State", standard: true, fields: ["state"], sort: "state", cell: (row) => <State state={row.state} /> },
    { ...number("messages_ready", "Ready", true), first: true },
    number("messages_unacknowledged", "Unacked", true),
    number("messages_delayed", "Delayed", false),
    number("messages_dlx", "Dead-lettering", false),
    number("messages", "Total", false),
    number("message_bytes", "Size", false, bytes),
    rateColumn("publish", "In", true),
    rateColumn("deliver_get", "Out", true),
    rateColumn("ack", "Acked", false),
    number("consumers", "Consumers", true),
    { id: "settings", label: "Limits", standard: true, fields: ["arguments", "effective_policy_definition", "type"], cell: (row) => <Limits row={row} /> },
    { id: "policy", label: "Policy", standard: true, fields: ["policy"], sort: "policy", cell: (row) => <Name text={row.policy ?? ""} /> },
    { id: "operator_policy", label: "Operator policy", fields: ["operator_policy"], sort: "operator_policy", cell: (row) => <Name text={row.operator_policy ?? ""} /> },
    { id: "arguments", label: "Arguments", fields: ["arguments"], cell: (row) => <Fields map={row.arguments} /> },
    { id: "members", label: "Members", fields: ["members", "online"], cell: (row) => members(row) },
    { id: "node", label: "Node", fields: ["node"], sort: "node", cell: (row) => row.node },
    { id: "why", label: "", standard: true, fields: [], cell: (row) => <Why kind="queue" vhost={row.vhost} name={row.name} /> },
  ];
  return (
    <List
      key={vhost}
      title="Queues and streams"
      target={vhost === "" ? path("queues") : path("queues", vhost)}
      columns={columns}
      keyFields={["name", "vhost"]}
      rowKey={keyOf}
      only={[
        // The broker's rule for rows, which knows less of a queue than its list of troubles does.
        { param: "problem", label: "Only if damaged, if members are missing, or if a queue has messages and no consumer", hint: <>The <a href="#/">overview</a> also lists queues that are full, refuse messages or have no leader.</> },
        { param: "type", label: "Type", values: ["classic", "quorum", "stream"] },
        { param: "state", label: "State", values: ["running", "damaged", "down"] },
        { param: "policy", label: "Policy", values: usePolicyNames(vhost) },
      ]}
      actions={mayAny(me.use(), "configure", vhost) && <CreateQueue vhost={vhost || "/"} />}
      empty={<Empty title="There are no queues.">Create one here, or let your clients declare theirs.</Empty>}
    />
  );
}

/** The settings that limit a queue, or decide where its messages go: DLX is its dead-letter exchange, TTL the time to live. */
function Limits({ row }: { row: QueueRow }): JSX.Element {
  return <span class="limits">{settings(row).filter(({ short }) => short !== "").map(({ short, label, value }) => <span class="badge plain" title={`${label}: ${visible(value)}`}><b>{short}</b> <Name text={value} /></span>)}</span>;
}

/** The names of all policies, for a filter. */
export function usePolicyNames(vhost: string): string[] {
  const [own, operator] = ["policies", "operator-policies"].map((kind) => useApi<{ name: string }[]>(`${vhost === "" ? path(kind) : path(kind, vhost)}?columns=name`, { once: true }));
  return [...new Set([...(own?.data ?? []), ...(operator?.data ?? [])].map((row) => row.name))].sort();
}

/** The nodes with a member of the queue's group, and those whose member does not run. Classic queues have none. */
function members({ members: all = [], online = all }: QueueRow): JSX.Element {
  const gone = all.filter((one) => !online.includes(one));
  return <>{all.length === 0 ? DASH : <Name text={all.join(", ")} />}{gone.length > 0 && <> <Badge tone="bad">{count(gone.length)} not running</Badge></>}</>;
}

/** The arguments that queues of a type take. */
function QueueArguments({ vhost, type, lines }: { vhost: string; type: string; lines: Lines }): JSX.Element {
  const all = useKnown()?.queue_arguments ?? [];
  return <Picker label="Arguments" what="an argument" hint="One name=value a line, for example x-max-length=1000" vhost={vhost} all={all} fitting={all.filter((one) => one.types.includes(type))} lines={lines} />;
}

const CreateQueue = fresh(({ vhost: initial }: { vhost: string }): JSX.Element => {
  const [vhost, setVhost] = useState(initial);
  const [name, setName] = useState("");
  const [type, setType] = useState("classic");
  const [durable, setDurable] = useState(true);
  const [autoDelete, setAutoDelete] = useState(false);
  const lines = useLines();
  const options: [string, string?][] = [...inVhost(vhost), ["--type", type], ...(autoDelete ? [["--auto-delete"] as [string]] : [])];
  const given = typedPairs(lines.all);
  return (
    <Action
      label="Create a queue"
      title="Create a queue or stream"
      confirm="Create"
      primary
      command={name && durable && given ? command(["declare", "queue"], [...options, ...toOptions("--argument", given)], [name]) : undefined}
      run={async () => {
        const body = { durable, auto_delete: autoDelete, arguments: { ...toObject(pairs(lines.all)), "x-queue-type": type } };
        const isNew = await put(path("queues", vhost, name), body);
        made({ what: type === "stream" ? "stream" : "queue", name, vhost, to: href(["queues", vhost, name]), isNew });
      }}
    >
      <VhostField value={vhost} set={setVhost} />
      <Text label="Name" value={name} set={setName} required />
      <Select label="Type" value={type} set={setType} options={[["classic", "classic"], ["quorum", "quorum"], ["stream", "stream"]]} />
      <Check label="Durable: it survives a restart" value={durable} set={setDurable} />
      <Check label="Delete it with its last consumer" value={autoDelete} set={setAutoDelete} />
      <QueueArguments vhost={vhost} type={type} lines={lines} />
    </Action>
  );
});
