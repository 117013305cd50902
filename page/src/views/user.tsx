/** One user: tags, permissions, limits and connections. */
import type { JSX } from "preact";
import { path } from "../lib/api";
import type { ConnectionRow, Page } from "../lib/names";
import { href } from "../lib/place";
import { useApi } from "../lib/poll";
import { TAGS } from "../lib/tags";
import { DASH, count, time, visible } from "../lib/text";
import { AdminOnly } from "../ui/actions";
import { Absent, Answer, Empty, Facts, Name, NameLink, Panel, State, Table, Why, present } from "../ui/parts";
import { SetLimit } from "./admin";
import { DeleteUser, EditUser, PermissionTable, type PermissionRow, SetPermission, SetTopic, type TopicRow, TopicTable, type UserRow, tagsOf } from "./users";

/** The connections that are shown. The list of connections has all. */
const CONNECTIONS_MAX = 50;

export function UserView({ name }: { name: string }): JSX.Element {
  const user = useApi<UserRow>(`${path("users", name)}?columns=name,tags,limits,hashing_algorithm`);
  const permissions = useApi<PermissionRow[]>(path("users", name, "permissions"));
  const topics = useApi<TopicRow[]>(path("users", name, "topic-permissions"));
  const connections = useApi<Page<ConnectionRow>>(`${path("connections", "username", name)}?page=1&page_size=${CONNECTIONS_MAX}&disable_stats=true&columns=name,vhost,state,protocol,connected_at`);
  const row = present(user);
  if (!row) return <Absent what="user" name={name} list="#/admin/users" label="Users" of={user} />;
  return (
    <>
      <p class="crumbs"><a href="#/admin/users">Users</a></p>
      <div class="listbar">
        <h1 class="name"><Name text={name} /></h1>
        <AdminOnly>
          <div class="actions">
            <EditUser row={row} />
            <DeleteUser name={name} />
          </div>
        </AdminOnly>
      </div>
      <Answer of={user}>
        {(data) => {
          const tags = tagsOf(data).split(", ").filter((tag) => tag !== "");
          return (
            <Panel title="What it is" aside={<AdminOnly><SetLimit kind="user" of={name} /></AdminOnly>}>
              <Facts
                items={[
                  ["Tags", tags.length === 0 ? "none: the user cannot use this page" : <ul>{tags.map((tag) => <li><b><Name text={tag} /></b>{TAGS[tag] && `: ${TAGS[tag]}`}</li>)}</ul>],
                  ["Password", data.hashing_algorithm?.replace("rabbit_password_hashing_", "") ?? DASH],
                  ["Connections at most", data.limits?.["max-connections"] === undefined ? "no limit" : count(data.limits["max-connections"])],
                  ["Channels at most", data.limits?.["max-channels"] === undefined ? "no limit" : count(data.limits["max-channels"])],
                ]}
              />
            </Panel>
          );
        }}
      </Answer>
      <Panel title="Permissions" tight aside={<AdminOnly><SetPermission user={name} /></AdminOnly>}>
        <Answer of={permissions}>{(rows) => <PermissionTable rows={rows} empty={<Empty title={`${visible(name)} may use no virtual host yet.`} />} />}</Answer>
      </Panel>
      <Panel title="Topic permissions" tight aside={<AdminOnly><SetTopic user={name} /></AdminOnly>}>
        <Answer of={topics}>{(rows) => <TopicTable rows={rows} />}</Answer>
      </Panel>
      <Panel title="Connections" tight aside={connections.data && <span class="hint">{count(connections.data.total_count)}</span>}>
        <Answer of={connections}>
          {({ items, total_count: all }) => (
            <>
              <Table
                caption={`Connections of ${visible(name)}`}
                rows={items}
                rowKey={(one) => one.name}
                columns={[
                  { id: "name", label: "Connection", cell: (one) => <NameLink to={href(["connections", one.name])} text={one.name} /> },
                  { id: "vhost", label: "Virtual host", cell: (one) => <Name text={one.vhost} /> },
                  { id: "protocol", label: "Protocol", cell: (one) => (one.protocol ?? DASH).replace(/-(\d)/g, ".$1") },
                  { id: "state", label: "State", cell: (one) => <State state={one.state} /> },
                  { id: "since", label: "Connected", number: true, cell: (one) => time(one.connected_at) },
                  { id: "why", label: "", cell: (one) => <Why kind="connection" name={one.name} /> },
                ]}
                empty={<Empty title="The user is not connected." />}
              />
              {all > items.length && <p class="hint">The first {count(items.length)} of {count(all)} are shown.</p>}
            </>
          )}
        </Answer>
      </Panel>
    </>
  );
}
