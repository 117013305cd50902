/** Tables of bindings. */
import type { ComponentChildren, JSX } from "preact";
import { exchangeInPath, path, request } from "../lib/api";
import { command, inVhost } from "../lib/command";
import { may, me } from "../lib/me";
import type { BindingRow } from "../lib/names";
import { Action } from "../ui/actions";
import { Fields, Name, Table } from "../ui/parts";

export function BindingTable({ caption, rows, end, action, empty }: { caption: string; rows: BindingRow[]; end: { label: string; cell: (row: BindingRow) => ComponentChildren }; action: (row: BindingRow) => ComponentChildren; empty: ComponentChildren }): JSX.Element {
  return (
    <Table
      caption={caption}
      rows={rows}
      rowKey={(row) => `${row.source}\u0000${row.destination_type}\u0000${row.destination}\u0000${row.properties_key}`}
      columns={[
        { id: "end", label: end.label, cell: end.cell },
        { id: "key", label: "Key", cell: (row) => <code><Name text={row.routing_key} /></code> },
        { id: "arguments", label: "Arguments", cell: (row) => <Fields map={row.arguments} /> },
        { id: "action", label: "", cell: action },
      ]}
      empty={empty}
    />
  );
}

/** The button that removes a binding, for users who may. */
export function Unbind({ row }: { row: BindingRow }): JSX.Element | null {
  const who = me.use();
  if (!may(who, "write", row.vhost, row.destination) || !may(who, "read", row.vhost, row.source)) return null;
  const kind = row.destination_type === "exchange" ? "e" : "q";
  const options: [string, string?][] = [...inVhost(row.vhost), ["--key", row.routing_key], ...(kind === "e" ? [["--to-exchange"] as [string]] : []), ...Object.entries(row.arguments).map(([name, value]): [string, string] => ["--argument", `${name}=${JSON.stringify(value)}`])];
  return (
    <Action
      label="Unbind"
      title="Remove this binding?"
      confirm="Unbind"
      danger
      command={command(["delete", "binding"], options, [row.source, row.destination])}
      run={async () => void (await request("DELETE", path("bindings", row.vhost, "e", exchangeInPath(row.source), kind, row.destination, row.properties_key)))}
    >
      <p>Messages with the key <code><Name text={row.routing_key} /></code> no longer go from <b><Name text={row.source} /></b> to <b><Name text={row.destination} /></b>.</p>
    </Action>
  );
}
