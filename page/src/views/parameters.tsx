/** Runtime parameters: named values of components in virtual hosts, and those of the whole cluster. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError, path, request } from "../lib/api";
import { command, inVhost } from "../lib/command";
import { useApi } from "../lib/poll";
import { vhost as chosenVhost } from "../lib/vhost";
import { Action, AdminOnly, Named, done, fresh } from "../ui/actions";
import { Answer, Area, Empty, Name, Panel, Table, Text } from "../ui/parts";
import { VhostField } from "../ui/picker";

/** Parameters of the whole cluster have only a name. */
interface ParameterRow {
  vhost?: string;
  component?: string;
  name: string;
  value: unknown;
}

const of = (row: ParameterRow) => (row.vhost === undefined ? path("global-parameters", row.name) : path("parameters", row.component ?? "", row.vhost, row.name));

/** The verb and the noun of the command, its options and its first words. */
function verb(what: "set" | "clear", row: ParameterRow): [string[], [string, string][], string[]] {
  return row.vhost === undefined ? [[what, "global-parameter"], [], [row.name]] : [[what, "parameter"], inVhost(row.vhost), [row.component ?? "", row.name]];
}

export function Parameters(): JSX.Element {
  const vhost = chosenVhost.use();
  const parameters = useApi<ParameterRow[]>(path("parameters"));
  const globals = useApi<ParameterRow[]>(path("global-parameters"));
  const table = (caption: string, rows: ParameterRow[], global: boolean) => (
    <Table
      caption={caption}
      rows={rows}
      rowKey={(row) => [row.vhost, row.component, row.name].join("\u0000")}
      columns={[
        ...(global
          ? []
          : [
              { id: "vhost", label: "Virtual host", cell: (row: ParameterRow) => <Name text={row.vhost ?? ""} /> },
              { id: "component", label: "Component", cell: (row: ParameterRow) => <Name text={row.component ?? ""} /> },
            ]),
        { id: "name", label: "Name", cell: (row) => <b class="name"><Name text={row.name} /></b> },
        { id: "value", label: "Value", cell: (row) => <code><Name text={JSON.stringify(row.value)} /></code> },
        {
          id: "actions",
          label: "",
          cell: (row) => {
            const [words, options, names] = verb("clear", row);
            return (
              <span class="actions">
                <SetParameter row={row} global={global} />
                <Action label="Delete" title={`Delete ${row.name}?`} confirm="Delete the parameter" danger command={command(words, options, names)} run={async () => {
                  await request("DELETE", of(row));
                  done(<>The parameter <b class="name"><Name text={row.name} /></b> was deleted.</>);
                }}>
                  <Named before="From then on, nothing is set for" name={row.name} after="." />
                </Action>
              </span>
            );
          },
        },
      ]}
      empty={<Empty title="There are no parameters." />}
    />
  );
  return (
    <>
      <Panel title="Parameters of virtual hosts" tight aside={<AdminOnly><SetParameter /></AdminOnly>}>
        <Answer of={parameters}>{(rows) => table("Parameters of virtual hosts", rows.filter((row) => vhost === "" || row.vhost === vhost), false)}</Answer>
      </Panel>
      <Panel title="Parameters of the cluster" tight aside={<AdminOnly><SetParameter global /></AdminOnly>}>
        <Answer of={globals}>{(rows) => table("Parameters of the cluster", rows, true)}</Answer>
      </Panel>
    </>
  );
}

const SetParameter = fresh(({ row, global = false }: { row?: ParameterRow; global?: boolean }): JSX.Element => {
  const [vhost, setVhost] = useState(row?.vhost ?? (chosenVhost.get() || "/"));
  const [component, setComponent] = useState(row?.component ?? "");
  const [name, setName] = useState(row?.name ?? "");
  const [text, setText] = useState(row ? JSON.stringify(row.value, null, 2) : "");
  const wanted: ParameterRow = global ? { name, value: text } : { vhost, component, name, value: text };
  const [words, options, names] = verb("set", wanted);
  const value = typed(text);
  return (
    <Action
      label={row ? "Edit" : global ? "Set a parameter of the cluster" : "Set a parameter"}
      title={row ? `Edit ${row.name}` : global ? "Set a parameter of the cluster" : "Set a parameter of a virtual host"}
      confirm={row ? "Save" : "Set"}
      command={name && value !== undefined && (global || component) ? command(words, options, [...names, JSON.stringify(value)]) : undefined}
      run={async () => {
        if (value === undefined) throw new ApiError(400, "page", "The value is not JSON. A text is in quotation marks.");
        await request("PUT", of(wanted), { body: { ...wanted, value } });
      }}
    >
      {!row && !global && <VhostField value={vhost} set={setVhost} />}
      {!row && !global && <Text label="Component" value={component} set={setComponent} required />}
      {!row && <Text label="Name" value={name} set={setName} required />}
      <Area label="Value" value={text} set={setText} hint="JSON, for example 7, true, &quot;text&quot; or {&quot;key&quot;: &quot;value&quot;}" />
    </Action>
  );
});

/** Returns the value of a text that may be half typed, or undefined if it is not JSON. */
function typed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
