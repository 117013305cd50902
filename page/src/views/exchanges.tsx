/** Exchanges and their bindings. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { exchangeInPath, path, put, request } from "../lib/api";
import { command, inVhost } from "../lib/command";
import { may, mayAny, me } from "../lib/me";
import type { BindingRow, ExchangeRow, Overview } from "../lib/names";
import { pairs, toObject, toOptions, typedPairs } from "../lib/pairs";
import { href } from "../lib/place";
import { useApi } from "../lib/poll";
import { DASH, count, visible } from "../lib/text";
import { vhost as chosenVhost } from "../lib/vhost";
import { Action, Actions, Named, done, fresh, made } from "../ui/actions";
import { Chart, PER_SECOND, rateLines } from "../ui/chart";
import { List, type ListColumn, rateColumn } from "../ui/list";
import { Absent, Answer, Area, Badge, Check, Empty, Facts, Fields, Name, NameLink, Panel, Select, Text, present, show, unknownArguments } from "../ui/parts";
import { type Lines, NameField, Picker, VhostField, useKnown, useLines } from "../ui/picker";
import { SpanChoice, useSpan } from "../ui/spans";
import { BindingTable, Unbind } from "./bindings";
import { Publish } from "./publish";
import { usePolicyNames } from "./queues";

const RATES: [string, string][] = [["publish_in", "In"], ["publish_out", "Out"]];

/** The name of an exchange as people read it. */
export function exchangeTitle(name: string): string {
  return name === "" || name === "amq.default" ? "(default exchange)" : name;
}

export function Exchanges(): JSX.Element {
  const vhost = chosenVhost.use();
  const types = useExchangeTypes();
  const columns: ListColumn<ExchangeRow>[] = [
    { id: "name", label: "Name", fields: ["name", "vhost"], sort: "name", cell: (row) => <NameLink to={href(["exchanges", row.vhost, exchangeInPath(row.name)])} text={exchangeTitle(row.name)} /> },
    { id: "vhost", label: "Virtual host", standard: vhost === "", fields: ["vhost"], sort: "vhost", cell: (row) => <Name text={row.vhost} /> },
    { id: "type", label: "Type", standard: true, fields: ["type"], sort: "type", cell: (row) => <Badge tone="plain">{row.type}</Badge> },
    { id: "features", label: "Properties", standard: true, fields: ["durable", "auto_delete", "internal"], cell: (row) => [row.durable ? "durable" : "transient", row.auto_delete && "auto-delete", row.internal && "internal"].filter(Boolean).join(", ") },
    rateColumn("publish_in", "In", true),
    rateColumn("publish_out", "Out", true),
    { id: "policy", label: "Policy", standard: true, fields: ["policy"], sort: "policy", cell: (row) => <Name text={row.policy ?? ""} /> },
    { id: "arguments", label: "Arguments", standard: true, fields: ["arguments"], cell: (row) => <Fields map={row.arguments} /> },
    { id: "try", label: "", standard: true, fields: [], cell: (row) => <a class="why" href={href(["routing"], { vhost: row.vhost, exchange: exchangeInPath(row.name) })}>try</a> },
  ];
  return <List key={vhost} title="Exchanges" target={vhost === "" ? path("exchanges") : path("exchanges", vhost)} columns={columns} keyFields={["name", "vhost"]} rowKey={(row) => `${row.vhost}\u0000${row.name}`} only={[{ param: "type", label: "Type", values: types }, { param: "policy", label: "Policy", values: usePolicyNames(vhost) }]} actions={mayAny(me.use(), "configure", vhost) && <CreateExchange vhost={vhost || "/"} />} empty={<Empty title="There are no exchanges." />} />;
}

/** The types of exchanges that the broker has. */
function useExchangeTypes(): string[] {
  const overview = useApi<Overview>(`${path("overview")}?columns=exchange_types`, { once: true });
  return overview.data?.exchange_types?.map((type) => type.name) ?? ["direct", "fanout", "topic", "headers"];
}

/** The arguments that exchanges of a type take. */
function ExchangeArguments({ vhost, type, lines }: { vhost: string; type: string; lines: Lines }): JSX.Element {
  const all = useKnown()?.exchange_arguments ?? [];
  return <Picker label="Arguments" what="an argument" hint="One name=value a line, for example alternate-exchange=unrouted" vhost={vhost} all={all} fitting={all.filter((one) => one.types.includes(type))} lines={lines} />;
}

const CreateExchange = fresh(({ vhost: initial }: { vhost: string }): JSX.Element => {
  const types = useExchangeTypes();
  const [vhost, setVhost] = useState(initial);
  const [name, setName] = useState("");
  const [type, setType] = useState("topic");
  const [durable, setDurable] = useState(true);
  const [autoDelete, setAutoDelete] = useState(false);
  const [internal, setInternal] = useState(false);
  const lines = useLines();
  const options: [string, string?][] = [...inVhost(vhost), ["--type", type], ...(autoDelete ? [["--auto-delete"] as [string]] : []), ...(internal ? [["--internal"] as [string]] : [])];
  const given = typedPairs(lines.all);
  return (
    <Action
      label="Create an exchange"
      title="Create an exchange"
      confirm="Create"
      primary
      command={name && durable && given ? command(["declare", "exchange"], [...options, ...toOptions("--argument", given)], [name]) : undefined}
      run={async () => {
        const isNew = await put(path("exchanges", vhost, name), { type, durable, auto_delete: autoDelete, internal, arguments: toObject(pairs(lines.all)) });
        made({ what: "exchange", name, vhost, to: href(["exchanges", vhost, name]), isNew });
      }}
    >
      <VhostField value={vhost} set={setVhost} />
      <Text label="Name" value={name} set={setName} required />
      <Select label="Type" value={type} set={setType} options={types.map((one) => [one, one])} />
      <Check label="Durable: it survives a restart" value={durable} set={setDurable} />
      <Check label="Delete it with its last binding" value={autoDelete} set={setAutoDelete} />
      <Check label="Internal: only other exchanges publish to it" value={internal} set={setInternal} />
      <ExchangeArguments vhost={vhost} type={type} lines={lines} />
    </Action>
  );
});

export function ExchangeView({ vhost, name }: { vhost: string; name: string }): JSX.Element {
  const target = path("exchanges", vhost, name);
  const real = name === "amq.default" ? "" : name;
  const span = useSpan();
  const exchange = useApi<ExchangeRow>(`${target}?${span.query}`, { keep: true });
  const outgoing = useApi<BindingRow[]>(`${target}/bindings/source`);
  const incoming = useApi<BindingRow[]>(real === "" ? null : `${target}/bindings/destination`);
  const fixed = real === "" || real.startsWith("amq.");
  const who = me.use();
  const found = present(exchange);
  if (!found) return <Absent what={`exchange in the virtual host ${visible(vhost)} with the name`} name={name} title={exchangeTitle(real)} list="#/exchanges" label="Exchanges" of={exchange} />;
  return (
    <>
      <p class="crumbs"><a href="#/exchanges">Exchanges</a> / <Name text={vhost} /></p>
      <div class="listbar">
        <h1 class="name"><Name text={exchangeTitle(real)} /></h1>
        <Badge tone="plain">{found.type}</Badge>
        <Actions>
          <a class="button" href={href(["routing"], { vhost, exchange: name })}>Where would a message go?</a>
          {real !== "" && may(who, "write", vhost, real) && <Publish vhost={vhost} exchange={real} routingKey="" />}
          {!fixed && may(who, "configure", vhost, real) && (
            <Action
              label="Delete"
              title={`Delete ${name}?`}
              confirm="Delete the exchange"
              danger
              command={command(["delete", "exchange"], inVhost(vhost), [real])}
              run={async () => {
                await request("DELETE", target);
                done(<>The exchange <b class="name"><Name text={name} /></b> was deleted.</>, "#/exchanges");
              }}
            >
              <Named before="The exchange" name={name} after={` in the virtual host ${visible(vhost)} is deleted, with its ${outgoing.data?.length ?? ""} bindings.`} />
            </Action>
          )}
        </Actions>
      </div>
      <Answer of={exchange}>
        {(row) => (
          <div class="columns">
            <Panel title="Messages over time" aside={<SpanChoice now={span} />}>
              <div class="charts one">
                <Chart title="Rates" span={span.seconds} unit={PER_SECOND} lines={rateLines(row.message_stats, RATES)} />
              </div>
            </Panel>
            <Panel title="What it is">
              <Facts
                items={[
                  ["Type", row.type],
                  ["Durable", row.durable ? "yes" : "no"],
                  ["Deleted with its last binding", row.auto_delete ? "yes" : "no"],
                  ["Internal", row.internal ? "yes" : "no"],
                  ["Policy", row.policy ? <Name text={row.policy} /> : DASH],
                  ["Arguments", <Fields map={row.arguments} />],
                  ...unknownArguments(row.unknown_arguments),
                ]}
              />
              <h3>Since its start</h3>
              <dl class="numbers">
                {[["publish_in", "Published"], ["publish_out", "Routed to queues"], ["return_unroutable", "Returned: no queue"], ["drop_unroutable", "Dropped: no queue"]].map(([field, label]) => (
                  <div><dt>{label}</dt><dd>{show(row.message_stats, field ?? "", count)}</dd></div>
                ))}
              </dl>
            </Panel>
          </div>
        )}
      </Answer>
      <Panel title="From here to" tight aside={real === "" || !may(who, "read", vhost, real) ? null : <Bind vhost={vhost} source={real} />}>
        {real === "" ? (
          <Empty title="Every queue is bound by its own name.">These bindings cannot be changed.</Empty>
        ) : (
          <Answer of={outgoing}>
            {(rows) => (
              <BindingTable
                caption="Bindings from this exchange"
                rows={rows}
                end={{ label: "To", cell: (row) => <>{row.destination_type} <NameLink to={href([row.destination_type === "exchange" ? "exchanges" : "queues", row.vhost, row.destination])} text={row.destination} /></> }}
                action={(row) => <Unbind row={row} />}
                empty={<Empty title="Nothing is bound to this exchange.">Messages that are published to it reach no queue.</Empty>}
              />
            )}
          </Answer>
        )}
      </Panel>
      {real !== "" && (
        <Panel title="To here from" tight>
          <Answer of={incoming}>
            {(rows) => (
              <BindingTable
                caption="Bindings to this exchange"
                rows={rows}
                end={{ label: "From", cell: (row) => <NameLink to={href(["exchanges", row.vhost, exchangeInPath(row.source)])} text={exchangeTitle(row.source)} /> }}
                action={(row) => <Unbind row={row} />}
                empty={<Empty title="No other exchange sends to this one." />}
              />
            )}
          </Answer>
        </Panel>
      )}
    </>
  );
}

const Bind = fresh(({ vhost, source }: { vhost: string; source: string }): JSX.Element => {
  const [kind, setKind] = useState("q");
  const [destination, setDestination] = useState("");
  const [key, setKey] = useState("");
  const [lines, setLines] = useState("");
  const options: [string, string?][] = [...inVhost(vhost), ["--key", key], ...(kind === "e" ? [["--to-exchange"] as [string]] : [])];
  const given = typedPairs(lines);
  return (
    <Action
      label="Bind"
      title={`Bind to ${source}`}
      confirm="Bind"
      command={destination && given ? command(["declare", "binding"], [...options, ...toOptions("--argument", given)], [source, destination]) : undefined}
      run={async () => void (await request("POST", path("bindings", vhost, "e", source, kind, destination), { body: { routing_key: key, arguments: toObject(pairs(lines)) } }))}
    >
      <Select label="To" value={kind} set={setKind} options={[["q", "queue"], ["e", "exchange"]]} />
      <NameField kind={kind === "q" ? "queue" : "exchange"} vhost={vhost} label="Name" value={destination} set={setDestination} required />
      <Text label="Binding key" value={key} set={setKey} />
      <Area label="Arguments" value={lines} set={setLines} hint="One name=value a line. A headers exchange compares them; x-match=any needs only one." />
    </Action>
  );
});
