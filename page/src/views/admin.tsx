/** Virtual hosts, limits, definitions and features. Users and policies have files of their own. */
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { ApiError, path, put, request } from "../lib/api";
import { command, inVhost } from "../lib/command";
import { href } from "../lib/place";
import { useApi } from "../lib/poll";
import { rateOf } from "../lib/rates";
import { DASH, count, rate } from "../lib/text";
import { vhost as chosenVhost } from "../lib/vhost";
import { Action, AdminOnly, Named, done, fresh, made } from "../ui/actions";
import { Answer, Badge, Check, Empty, Field, Name, NameLink, NotPermitted, Panel, Select, Table, Text, show } from "../ui/parts";
import { NameField } from "../ui/picker";
import { Nodes } from "./nodes";
import { Parameters } from "./parameters";
import { Policies } from "./policies";
import { Users } from "./users";
import { UserView } from "./user";
import { VhostView } from "./vhost";

const TABS: [string, string][] = [["vhosts", "Virtual hosts"], ["users", "Users"], ["policies", "Policies"], ["limits", "Limits"], ["parameters", "Parameters"], ["nodes", "Cluster and nodes"], ["definitions", "Definitions"], ["features", "Features"]];

export function Admin({ tab, name }: { tab: string; name: string | undefined }): JSX.Element {
  if (name !== undefined && tab === "users") return <UserView name={name} />;
  if (name !== undefined && tab === "vhosts") return <VhostView name={name} />;
  return (
    <>
      <h1>Admin</h1>
      <nav class="tabs" aria-label="Admin">
        <ul>{TABS.map(([id, label]) => <li><a href={`#/admin/${id}`} aria-current={tab === id ? "page" : undefined}>{label}</a></li>)}</ul>
      </nav>
      {tab === "users" ? <Users /> : tab === "policies" ? <Policies /> : tab === "limits" ? <Limits /> : tab === "parameters" ? <Parameters /> : tab === "nodes" ? <Nodes /> : tab === "definitions" ? <Definitions /> : tab === "features" ? <Features /> : <Vhosts />}
    </>
  );
}

export interface VhostRow {
  name: string;
  description?: string;
  tags?: string[];
  default_queue_type?: string;
  protected_from_deletion?: boolean;
  deleting?: boolean;
  message_stats?: Record<string, unknown>;
}

function Vhosts(): JSX.Element {
  const vhosts = useApi<VhostRow[]>(path("vhosts"));
  return (
    <Panel title="Virtual hosts" tight aside={<AdminOnly><EditVhost /></AdminOnly>}>
      <Answer of={vhosts}>
        {(rows) => (
          <Table
            caption="Virtual hosts"
            rows={rows}
            rowKey={(row) => row.name}
            columns={[
              { id: "name", label: "Name", cell: (row) => <NameLink to={href(["admin", "vhosts", row.name])} text={row.name} /> },
              { id: "description", label: "Description", cell: (row) => <Name text={row.description ?? ""} /> },
              { id: "tags", label: "Tags", cell: (row) => <Name text={(row.tags ?? []).join(", ")} /> },
              { id: "type", label: "Default queue type", cell: (row) => row.default_queue_type ?? DASH },
              ...[["messages_ready", "Ready"], ["messages_unacknowledged", "Unacked"]].map(([field, label]) => ({ id: field ?? "", label: label ?? "", number: true, cell: (row: VhostRow) => show(row, field ?? "", count) })),
              ...[["publish", "In"], ["deliver_get", "Out"]].map(([field, label]) => ({ id: field ?? "", label: label ?? "", number: true, cell: (row: VhostRow) => rate(rateOf(row.message_stats, field ?? "")) })),
              { id: "state", label: "Protected", cell: (row) => (row.deleting ? <Badge tone="warn">being deleted</Badge> : row.protected_from_deletion ? "yes" : "no") },
              {
                id: "actions",
                label: "",
                cell: (row) => (
                  <AdminOnly><span class="actions">
                    <EditVhost row={row} />
                    <Action
                      label={row.protected_from_deletion ? "Unprotect" : "Protect"}
                      title={`${row.protected_from_deletion ? "Allow the deletion of" : "Protect"} ${row.name}?`}
                      confirm={row.protected_from_deletion ? "Allow deletion" : "Protect"}
                      command={command([row.protected_from_deletion ? "unprotect" : "protect", "vhost"], [], [row.name])}
                      run={async () => void (await request(row.protected_from_deletion ? "DELETE" : "POST", path("vhosts", row.name, "deletion", "protection"), row.protected_from_deletion ? {} : { body: {} }))}
                    >
                      <Named before={row.protected_from_deletion ? "From then on, this can be deleted:" : "From then on, nobody can delete"} name={row.name} />
                    </Action>
                    <DeleteVhost name={row.name} />
                  </span></AdminOnly>
                ),
              },
            ]}
          />
        )}
      </Answer>
    </Panel>
  );
}

/** Deletes a virtual host. Its page then gives way to the list. */
export function DeleteVhost({ name }: { name: string }): JSX.Element {
  return (
    <Action
      label="Delete"
      title={`Delete ${name}?`}
      confirm="Delete the virtual host"
      danger
      command={command(["delete", "vhost"], [], [name])}
      run={async () => {
        await request("DELETE", path("vhosts", name));
        done(<>The virtual host <b class="name"><Name text={name} /></b> was deleted.</>, "#/admin/vhosts");
      }}
    >
      <Named before="All queues, messages, exchanges, policies and permissions of" name={name} after=" are deleted, and its connections are closed." />
    </Action>
  );
}

/** Adds a virtual host, or edits the description, the tags and the default queue type of one. */
export const EditVhost = fresh(({ row }: { row?: VhostRow }): JSX.Element => {
  const [name, setName] = useState(row?.name ?? "");
  const [description, setDescription] = useState(row?.description ?? "");
  const [tags, setTags] = useState((row?.tags ?? []).join(","));
  const [type, setType] = useState(row?.default_queue_type ?? "");
  const given: [string, string][] = [["--description", description], ["--tags", tags], ["--default-queue-type", type]];
  // What was there and is now empty is sent, too.
  const options = given.filter(([option, value]) => value !== "" || (row !== undefined && option !== "--default-queue-type"));
  return (
    <Action
      label={row ? "Edit" : "Add a virtual host"}
      title={row ? `Edit ${row.name}` : "Add a virtual host"}
      confirm={row ? "Save" : "Add"}
      primary={!row}
      command={name ? command(["add", "vhost"], options, [name]) : undefined}
      run={async () => {
        const isNew = await put(path("vhosts", name), { description, tags, ...(type ? { default_queue_type: type } : {}) });
        if (row) return;
        made({ what: "virtual host", name, to: href(["admin", "vhosts", name]), isNew, otherwise: "was there before, and has these settings now" });
      }}
    >
      {!row && <Text label="Name" value={name} set={setName} required />}
      <Text label="Description" value={description} set={setDescription} />
      <Text label="Tags" value={tags} set={setTags} hint="With commas between" />
      <Select label="Default queue type" value={type} set={setType} options={[["", "that of the broker"], ["classic", "classic"], ["quorum", "quorum"], ["stream", "stream"]]} />
    </Action>
  );
});

function Limits(): JSX.Element {
  const vhosts = useApi<{ vhost: string; value: Record<string, number> }[]>(path("vhost-limits"));
  const users = useApi<{ user: string; value: Record<string, number> }[]>(path("user-limits"));
  const rowsOf = (rows: { value: Record<string, number> }[], name: (row: never) => string) => rows.flatMap((row) => Object.entries(row.value).map(([limit, value]) => ({ name: name(row as never), limit, value })));
  const table = (kind: "vhost" | "user", rows: { name: string; limit: string; value: number }[]) => (
    <Table
      caption={kind === "vhost" ? "Limits of virtual hosts" : "Limits of users"}
      rows={rows}
      rowKey={(row) => `${row.name}\u0000${row.limit}`}
      columns={[
        { id: "name", label: kind === "vhost" ? "Virtual host" : "User", cell: (row) => <b class="name"><Name text={row.name} /></b> },
        { id: "limit", label: "Limit", cell: (row) => row.limit },
        { id: "value", label: "At most", number: true, cell: (row) => count(row.value) },
        {
          id: "actions",
          label: "",
          cell: (row) => (
            <AdminOnly><Action label="Remove" title="Remove this limit?" confirm="Remove the limit" danger command={command(["clear", "limit"], kind === "user" ? [["--user", row.name]] : inVhost(row.name), [row.limit])} run={async () => void (await request("DELETE", path(`${kind}-limits`, row.name, row.limit)))}>
              <Named before={`From then on, ${row.limit} has no limit in`} name={row.name} />
            </Action></AdminOnly>
          ),
        },
      ]}
      empty={<Empty title="There are no limits." />}
    />
  );
  return (
    <>
      <Panel title="Limits of virtual hosts" tight aside={<AdminOnly><SetLimit kind="vhost" /></AdminOnly>}>
        <Answer of={vhosts}>{(rows) => table("vhost", rowsOf(rows, (row: { vhost: string }) => row.vhost))}</Answer>
      </Panel>
      <Panel title="Limits of users" tight aside={<AdminOnly><SetLimit kind="user" /></AdminOnly>}>
        <Answer of={users}>{(rows) => table("user", rowsOf(rows, (row: { user: string }) => row.user))}</Answer>
      </Panel>
    </>
  );
}

export const SetLimit = fresh(({ kind, of }: { kind: "vhost" | "user"; of?: string }): JSX.Element => {
  const limits = kind === "vhost" ? ["max-connections", "max-queues"] : ["max-connections", "max-channels"];
  const [name, setName] = useState(of ?? (kind === "vhost" ? chosenVhost.get() || "/" : ""));
  const [limit, setLimit] = useState(limits[0] ?? "");
  const [value, setValue] = useState("");
  return (
    <Action
      label="Set a limit"
      title={kind === "vhost" ? "Limit a virtual host" : "Limit a user"}
      confirm="Set"
      command={name && value ? command(["set", "limit"], kind === "user" ? [["--user", name]] : inVhost(name), [limit, value]) : undefined}
      run={async () => void (await request("PUT", path(`${kind}-limits`, name, limit), { body: { value: Number(value) } }))}
    >
      <NameField kind={kind} label={kind === "vhost" ? "Virtual host" : "User"} value={name} set={setName} required />
      <Select label="Limit" value={limit} set={setLimit} options={limits.map((one) => [one, one])} />
      <Text label="At most" value={value} set={setValue} required pattern="[0-9]+" />
    </Action>
  );
});

function Definitions(): JSX.Element {
  const vhost = chosenVhost.use();
  return (
    <Panel title="Definitions">
      <p>Definitions are everything but the messages, in RabbitMQ's form{vhost !== "" && <>: here only those of the virtual host <b><Name text={vhost} /></b></>}.</p>
      <AdminOnly instead={<p><NotPermitted>it needs the tag administrator</NotPermitted></p>}><div class="actions"><Export vhost={vhost} /><Import vhost={vhost} /></div></AdminOnly>
    </Panel>
  );
}

/** The path of the definitions of a virtual host, or of the whole broker for an empty name. */
const definitionsOf = (vhost: string) => (vhost === "" ? path("definitions") : path("definitions", vhost));
const wordsFor = (vhost: string) => (vhost === "" ? "of the whole broker" : "of the virtual host");

const Export = fresh(({ vhost }: { vhost: string }): JSX.Element => {
  const [hashes, setHashes] = useState(false);
  return (
    <Action
      label="Export"
      title={`Export the definitions ${wordsFor(vhost)}`}
      confirm="Export"
      primary
      command={command(["export", "definitions"], inVhost(vhost || "/"), ["definitions.json"])}
      run={async () => {
        const definitions = (await request("GET", definitionsOf(vhost))) as Record<string, unknown>;
        if (!hashes) delete definitions["users"];
        const link = document.createElement("a");
        link.href = URL.createObjectURL(new Blob([`${JSON.stringify(definitions, null, 2)}\n`], { type: "application/json" }));
        link.download = "definitions.json";
        link.click();
        URL.revokeObjectURL(link.href);
        return "The browser saves the file definitions.json.";
      }}
    >
      {vhost === "" && <Check label="With the users and the hashes of their passwords" value={hashes} set={setHashes} />}
      <p class="hint">The command line exports the users, too.</p>
    </Action>
  );
});

const Import = fresh(({ vhost }: { vhost: string }): JSX.Element => {
  const [skips, setSkips] = useState(false);
  const file = useRef<HTMLInputElement>(null);
  return (
    <Action
      label="Import"
      title={`Import definitions ${wordsFor(vhost)}`}
      confirm="Import"
      danger
      command={command(["import", "definitions"], [...(skips ? [["--skip-unknown"] as [string]] : []), ...inVhost(vhost || "/")], ["definitions.json"])}
      run={async () => {
        const chosen = file.current?.files?.[0];
        if (!chosen) throw new ApiError(400, "page", "Choose a file first.");
        // As it is, so that the broker names the lines of the file.
        const report = await request("POST", `${definitionsOf(vhost)}?report=true&skip_unknown=${skips}`, { json: await chosen.text() });
        const warnings = (report as { warnings: string[] }).warnings;
        if (warnings.length === 0) return "All definitions of the file are in force.";
        return (
          <>
            <p>The definitions of the file are in force, except for this:</p>
            <ul>{warnings.map((one) => <li>{one}</li>)}</ul>
          </>
        );
      }}
    >
      <Check label="Leave out what this broker does not know: types of exchanges, keys of policies, and arguments that no queue takes" value={skips} set={setSkips} />
      <p>The broker carries out all definitions of the file, or none if one is wrong. What exists and is not in the file stays.</p>
      <Field label="File">{(id) => <input id={id} ref={file} type="file" accept="application/json,.json" required />}</Field>
    </Action>
  );
});

interface FeatureRow {
  name: string;
  state?: string;
  desc?: string;
  deprecation_phase?: string;
  uses?: number;
}

function Features(): JSX.Element {
  const used = useApi<FeatureRow[]>(path("deprecated-features", "used"));
  const all = useApi<FeatureRow[]>(path("deprecated-features"));
  const flags = useApi<FeatureRow[]>(path("feature-flags"));
  const deprecated = (caption: string, rows: FeatureRow[], empty: string) => (
    <Table
      caption={caption}
      rows={rows}
      rowKey={(row) => row.name}
      columns={[
        { id: "name", label: "Feature", cell: (row) => <Name text={row.name} /> },
        { id: "phase", label: "Phase", cell: (row) => (row.deprecation_phase ?? DASH).replaceAll("_", " ") },
        { id: "uses", label: "Uses since the start", number: true, cell: (row) => count(row.uses) },
      ]}
      empty={<Empty title={empty} />}
    />
  );
  return (
    <>
      <Panel title="Deprecated features in use" tight>
        <Answer of={used}>{(rows) => deprecated("Deprecated features in use", rows, "No client uses a deprecated feature.")}</Answer>
      </Panel>
      <Panel title="All deprecated features" tight>
        <Answer of={all}>{(rows) => deprecated("All deprecated features", rows, "There are none.")}</Answer>
      </Panel>
      <Panel title="Feature flags" tight>
        <Answer of={flags}>
          {(rows) => (
            <Table
              caption="Feature flags"
              rows={rows}
              rowKey={(row) => row.name}
              columns={[
                { id: "name", label: "Flag", cell: (row) => <Name text={row.name} /> },
                { id: "state", label: "State", cell: (row) => row.state ?? DASH },
                { id: "desc", label: "Description", cell: (row) => <Name text={row.desc ?? ""} /> },
              ]}
              empty={<Empty title="There are no feature flags.">Every feature of this version is on.</Empty>}
            />
          )}
        </Answer>
      </Panel>
    </>
  );
}
