/** Users, their permissions and topic permissions. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { path, put, request } from "../lib/api";
import { command, inVhost } from "../lib/command";
import { href } from "../lib/place";
import { useApi } from "../lib/poll";
import { tagList } from "../lib/tags";
import { DASH } from "../lib/text";
import { vhost as chosenVhost } from "../lib/vhost";
import { Action, AdminOnly, Named, done, fresh, made } from "../ui/actions";
import { NameField, TagsField, VhostField } from "../ui/picker";
import { Answer, Empty, Name, NameLink, Panel, Table, Text } from "../ui/parts";

export interface UserRow {
  name: string;
  limits?: Record<string, number>;
  tags?: string[] | string;
  hashing_algorithm?: string;
}

export interface PermissionRow {
  user: string;
  vhost: string;
  configure: string;
  write: string;
  read: string;
}

export interface TopicRow {
  user: string;
  vhost: string;
  exchange: string;
  write: string;
  read: string;
}

export const tagsOf = (row: UserRow) => (Array.isArray(row.tags) ? row.tags.join(", ") : (row.tags ?? ""));

export function Users(): JSX.Element {
  const users = useApi<UserRow[]>(`${path("users")}?columns=name,tags,hashing_algorithm`);
  const permissions = useApi<PermissionRow[]>(path("permissions"));
  const topics = useApi<TopicRow[]>(path("topic-permissions"));
  return (
    <>
      <Panel title="Users" tight aside={<AdminOnly><EditUser /></AdminOnly>}>
        <Answer of={users}>
          {(rows) => (
            <Table
              caption="Users"
              rows={rows}
              rowKey={(row) => row.name}
              columns={[
                { id: "name", label: "Name", cell: (row) => <NameLink to={href(["admin", "users", row.name])} text={row.name} /> },
                { id: "tags", label: "Tags", cell: (row) => <Name text={tagsOf(row) || DASH} /> },
                { id: "vhosts", label: "Can use", cell: (row) => <Name text={(permissions.data ?? []).filter((one) => one.user === row.name).map((one) => one.vhost).join(", ") || "no virtual host"} /> },
                { id: "hash", label: "Password", cell: (row) => row.hashing_algorithm?.replace("rabbit_password_hashing_", "") ?? DASH },
                {
                  id: "actions",
                  label: "",
                  cell: (row) => (
                    <span class="actions">
                      <EditUser row={row} />
                      <DeleteUser name={row.name} />
                    </span>
                  ),
                },
              ]}
            />
          )}
        </Answer>
      </Panel>
      <Panel title="Permissions" tight aside={<AdminOnly><SetPermission /></AdminOnly>}>
        <Answer of={permissions}>
          {(rows) => <PermissionTable rows={rows} empty={<Empty title="No user may use a virtual host yet." />} />}
        </Answer>
      </Panel>
      <Panel title="Topic permissions" tight aside={<AdminOnly><SetTopic /></AdminOnly>}>
        <Answer of={topics}>
          {(rows) => <TopicTable rows={rows} />}
        </Answer>
      </Panel>
    </>
  );
}

/** A regular expression for names; an empty one matches nothing. */
const pattern = (text: string) => (text === "" ? <span class="hint">nothing</span> : <code><Name text={text} /></code>);

/** What users may do in virtual hosts. */
export function PermissionTable({ rows, empty }: { rows: PermissionRow[]; empty: ComponentChildren }): JSX.Element {
  return (
    <Table
              caption="Permissions"
              rows={rows}
              rowKey={(row) => `${row.user}\u0000${row.vhost}`}
              columns={[
                { id: "user", label: "User", cell: (row) => <NameLink to={href(["admin", "users", row.user])} text={row.user} /> },
                { id: "vhost", label: "Virtual host", cell: (row) => <NameLink to={href(["admin", "vhosts", row.vhost])} text={row.vhost} /> },
                { id: "configure", label: "Configure", cell: (row) => pattern(row.configure) },
                { id: "write", label: "Write", cell: (row) => pattern(row.write) },
                { id: "read", label: "Read", cell: (row) => pattern(row.read) },
                {
                  id: "actions",
                  label: "",
                  cell: (row) => (
                    <span class="actions"><SetPermission row={row} />
                    <Action label="Clear" title="Remove these permissions?" confirm="Remove the permissions" danger command={command(["clear", "permission"], inVhost(row.vhost), [row.user])} run={async () => void (await request("DELETE", path("permissions", row.vhost, row.user)))}>
                      <Named before="The connections to this virtual host are closed of the user" name={row.user} after="." />
                    </Action></span>
                  ),
                },
              ]}
              empty={empty}
            />
  );
}

/** The keys to which users are restricted. */
export function TopicTable({ rows }: { rows: TopicRow[] }): JSX.Element {
  return (
    <Table
              caption="Topic permissions"
              rows={rows}
              rowKey={(row) => `${row.user}\u0000${row.vhost}\u0000${row.exchange}`}
              columns={[
                { id: "user", label: "User", cell: (row) => <NameLink to={href(["admin", "users", row.user])} text={row.user} /> },
                { id: "vhost", label: "Virtual host", cell: (row) => <Name text={row.vhost} /> },
                { id: "exchange", label: "Exchange", cell: (row) => <Name text={row.exchange} /> },
                { id: "write", label: "Publish with keys", cell: (row) => pattern(row.write) },
                { id: "read", label: "Bind with keys", cell: (row) => pattern(row.read) },
                {
                  id: "actions",
                  label: "",
                  cell: (row) => (
                    <span class="actions"><SetTopic row={row} />
                    <Action label="Clear" title="Remove these topic permissions?" confirm="Remove" danger run={async () => void (await request("DELETE", path("topic-permissions", row.vhost, row.user, row.exchange)))}>
                      <Named before="From then on, all keys are permitted to" name={row.user} after="." />
                    </Action></span>
                  ),
                },
              ]}
              empty={<Empty title="No user is restricted to certain keys." />}
            />
  );
}

/** Deletes a user. Its page then gives way to the list. */
export function DeleteUser({ name }: { name: string }): JSX.Element {
  return (
    <Action
      label="Delete"
      title={`Delete ${name}?`}
      confirm="Delete the user"
      danger
      command={command(["delete", "user"], [], [name])}
      run={async () => {
        await request("DELETE", path("users", name));
        done(<>The user <b class="name"><Name text={name} /></b> was deleted.</>, "#/admin/users");
      }}
    >
      <Named before="The connections of" name={name} after=" are closed, and the user can no longer log in." />
    </Action>
  );
}

export const EditUser = fresh(({ row }: { row?: UserRow }): JSX.Element => {
  const [name, setName] = useState(row?.name ?? "");
  const [password, setPassword] = useState("");
  const [tags, setTags] = useState(row ? tagsOf(row) : "");
  const list = tagList(tags);
  return (
    <Action
      label={row ? "Edit" : "Add a user"}
      title={row ? `Edit ${row.name}` : "Add a user"}
      confirm={row ? "Save" : "Add"}
      primary={!row}
      command={row ? `${command(["set", "tags"], [], [name, ...list])}${password === "" ? "" : ` && ${command(["set", "password"], [], [name])}`}` : name ? command(["add", "user"], list.length > 0 ? [["--tags", list.join(",")]] : [], [name]) : undefined}
      run={async () => {
        // What a POST does not name stays. A new user must not replace one with the same name.
        const body = row && password === "" ? { tags: list.join(",") } : { password, tags: list.join(",") };
        if (row) return void (await request("POST", path("users", name), { body }));
        await put(path("users", name), body, { "if-none-match": "*" });
        made({ what: "user", name, to: href(["admin", "users", name]), isNew: true, next: "It may use no virtual host yet. Its page sets the permissions." });
      }}
    >
      {!row && <Text label="Name" value={name} set={setName} required />}
      <Text label={row ? "New password" : "Password"} type="password" value={password} set={setPassword} required={!row} {...(row ? { hint: "Empty: the password stays" } : {})} />
      <TagsField value={tags} set={setTags} />
    </Action>
  );
});

export const SetPermission = fresh(({ row, user: of, vhost: where }: { row?: PermissionRow; user?: string; vhost?: string }): JSX.Element => {
  const [user, setUser] = useState(row?.user ?? of ?? "");
  const [vhost, setVhost] = useState(row?.vhost ?? where ?? (chosenVhost.get() || "/"));
  const [configure, setConfigure] = useState(row?.configure ?? ".*");
  const [write, setWrite] = useState(row?.write ?? ".*");
  const [read, setRead] = useState(row?.read ?? ".*");
  return (
    <Action
      label={row ? "Edit" : "Set permissions"}
      title={row ? `What may ${row.user} do?` : "Set what a user may do"}
      confirm={row ? "Save" : "Set"}
      command={user ? command(["set", "permission"], inVhost(vhost), [user, configure, write, read]) : undefined}
      run={async () => void (await request("PUT", path("permissions", vhost, user), { body: { configure, write, read } }))}
    >
      {!row && <NameField kind="user" label="User" value={user} set={setUser} required />}
      {!row && <VhostField value={vhost} set={setVhost} />}
      <Text label="Configure" value={configure} set={setConfigure} hint="A regular expression for names; .* for all, empty for none" />
      <Text label="Write" value={write} set={setWrite} />
      <Text label="Read" value={read} set={setRead} />
    </Action>
  );
});

export const SetTopic = fresh(({ row, user: of }: { row?: TopicRow; user?: string }): JSX.Element => {
  const [user, setUser] = useState(row?.user ?? of ?? "");
  const [vhost, setVhost] = useState(row?.vhost ?? (chosenVhost.get() || "/"));
  const [exchange, setExchange] = useState(row?.exchange ?? "amq.topic");
  const [write, setWrite] = useState(row?.write ?? ".*");
  const [read, setRead] = useState(row?.read ?? ".*");
  return (
    <Action
      label={row ? "Edit" : "Set topic permissions"}
      title={row ? `Restrict the keys of ${row.user}` : "Restrict the keys of a user"}
      confirm={row ? "Save" : "Set"}
      command={user ? command(["set", "topic-permission"], inVhost(vhost), [user, exchange, write, read]) : undefined}
      run={async () => void (await request("PUT", path("topic-permissions", vhost, user), { body: { exchange, write, read } }))}
    >
      {!row && <NameField kind="user" label="User" value={user} set={setUser} required />}
      {!row && <VhostField value={vhost} set={setVhost} />}
      {!row && <NameField kind="exchange" vhost={vhost} label="Topic exchange" value={exchange} set={setExchange} required />}
      <Text label="Publish with keys" value={write} set={setWrite} hint="A regular expression" />
      <Text label="Bind with keys" value={read} set={setRead} hint="A regular expression" />
    </Action>
  );
});
