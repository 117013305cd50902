/** Policies of users and operators, with the queues that each is in force for. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, path, put, request, toApiError } from "../lib/api";
import { command, inVhost } from "../lib/command";
import { administers, makesPolicies, me } from "../lib/me";
import type { Page, QueueRow } from "../lib/names";
import { keysFor, targets } from "../lib/known";
import { pairs, toObject, typedPairs } from "../lib/pairs";
import { href, place } from "../lib/place";
import { useApi } from "../lib/poll";
import { count } from "../lib/text";
import { vhost as chosenVhost } from "../lib/vhost";
import { Action, Named, done, fresh, made } from "../ui/actions";
import { type Lines, Picker, VhostField, useKnown, useLines } from "../ui/picker";
import { Answer, Dialog, Empty, Fields, Name, NameLink, Panel, Problem, Select, Table, Text } from "../ui/parts";

interface PolicyRow {
  name: string;
  vhost: string;
  pattern: string;
  "apply-to": string;
  definition: Record<string, unknown>;
  priority: number;
}

const KINDS = ["policies", "operator-policies"] as const;
type Kind = (typeof KINDS)[number];

/** The options that say which policies a command is about. */
function ofKind(kind: Kind, vhost: string): [string, string?][] {
  return kind === "policies" ? inVhost(vhost) : [["--operator"], ...inVhost(vhost)];
}

/** The word for one of them. */
const WORD: Record<Kind, string> = { policies: "policy", "operator-policies": "operator policy" };

export function Policies(): JSX.Element {
  return <>{KINDS.map((kind) => <PolicyTable kind={kind} />)}</>;
}

function PolicyTable({ kind }: { kind: Kind }): JSX.Element {
  const vhost = chosenVhost.use();
  const policies = useApi<PolicyRow[]>(vhost === "" ? path(kind) : path(kind, vhost));
  const who = me.use();
  const sets = kind === "policies" ? makesPolicies(who) : administers(who);
  const title = kind === "policies" ? "Policies" : "Operator policies";
  return (
    <Panel title={title} tight aside={sets && <EditPolicy kind={kind} />}>
      <Answer of={policies}>
        {(rows) => (
          <Table
            caption={title}
            rows={rows}
            rowKey={(row) => `${row.vhost}\u0000${row.name}`}
            columns={[
              { id: "name", label: "Name", cell: (row) => <PolicyName kind={kind} row={row} /> },
              { id: "vhost", label: "Virtual host", cell: (row) => <Name text={row.vhost} /> },
              { id: "pattern", label: "Names that match", cell: (row) => <code><Name text={row.pattern} /></code> },
              { id: "apply", label: "Applies to", cell: (row) => row["apply-to"].replaceAll("_", " ") },
              { id: "definition", label: "Definition", cell: (row) => <Fields map={row.definition} /> },
              { id: "priority", label: "Priority", number: true, cell: (row) => count(row.priority) },
              {
                id: "actions",
                label: "",
                cell: (row) => (
                  <span class="actions">
                    <Matches kind={kind} row={row} />
                    {sets && <EditPolicy kind={kind} row={row} />}
                    {sets && <Action label="Delete" title={`Delete ${row.name}?`} confirm="Delete the policy" danger command={command(["clear", "policy"], ofKind(kind, row.vhost), [row.name])} run={async () => {
                      await request("DELETE", path(kind, row.vhost, row.name));
                      done(<>The {WORD[kind]} <b class="name"><Name text={row.name} /></b> was deleted.</>);
                    }}>
                      <Named before="The queues and exchanges that it is in force for get the next policy that matches, or none:" name={row.name} />
                    </Action>}
                  </span>
                ),
              },
            ]}
            empty={<Empty title={kind === "policies" ? "There are no policies." : "There are no operator policies."}>{kind === "policies" ? "A policy gives arguments to all queues and exchanges whose names match." : "An operator policy limits all queues whose names match, whatever the policies and arguments of users say."}</Empty>}
          />
        )}
      </Answer>
    </Panel>
  );
}

/** Names a policy in the address. */
function keyOf(kind: Kind, vhost: string, name: string): string {
  return JSON.stringify([kind, vhost, name]);
}

/** The name of a policy. If the address names the policy, its row is brought into sight. */
function PolicyName({ kind, row }: { kind: Kind; row: PolicyRow }): JSX.Element {
  const element = useRef<HTMLElement>(null);
  const isShown = place.use().query["shown"] === keyOf(kind, row.vhost, row.name);
  useEffect(() => {
    if (isShown) element.current?.focus();
  }, [isShown]);
  return <b class="name" ref={element} tabIndex={-1}><Name text={row.name} /></b>;
}

/** The most queues of a page of the API, which are looked through at once. */
const PAGE_ROWS = 500;

/** The most matches that are shown before the user asks for more. */
const MATCHES_MAX = 100;

/** The queues that have this policy. The broker says which, so the pattern means what it means there. */
function Matches({ kind, row }: { kind: Kind; row: PolicyRow }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>Queues</button>
      {open && <MatchesDialog kind={kind} row={row} close={() => setOpen(false)} />}
    </>
  );
}

function MatchesDialog({ kind, row, close }: { kind: Kind; row: PolicyRow; close: () => void }): JSX.Element {
  const [found, setFound] = useState<string[]>([]);
  const [page, setPage] = useState(0);
  const [pages, setPages] = useState(1);
  const [seen, setSeen] = useState(0);
  const [total, setTotal] = useState(0);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const field = kind === "policies" ? "policy" : "operator_policy";
  const look = async () => {
    setBusy(true);
    setError(undefined);
    let [number, last, looked] = [page, pages, seen];
    const names: string[] = [];
    try {
      while (number < last && names.length < MATCHES_MAX) {
        number += 1;
        const query = `page=${number}&page_size=${PAGE_ROWS}&columns=name,${field}&disable_stats=true`;
        const answer = (await request("GET", `${path("queues", row.vhost)}?${query}`)) as Page<QueueRow>;
        names.push(...answer.items.filter((queue) => queue[field] === row.name).map((queue) => queue.name));
        last = answer.page_count;
        looked += answer.items.length;
        setSeen(looked);
        setTotal(answer.total_count);
      }
    } catch (caught) {
      setError(toApiError(caught));
    }
    setPage(number);
    setPages(last);
    setFound([...found, ...names]);
    setBusy(false);
  };
  return (
    <Dialog title={`Queues with ${row.name}`} close={close}>
      <p>The policy is in force for these queues. A queue that matches can have another policy with a higher priority.</p>
      {error && <Problem error={error} />}
      {page > 0 && (found.length === 0 ? <Empty title="None of the queues that were looked at has this policy." /> : <ul class="names">{found.map((name) => <li><NameLink to={href(["queues", row.vhost, name])} text={name} /></li>)}</ul>)}
      <p class="hint" role="status">{page > 0 ? `${count(found.length)} of ${count(seen)} queues looked at, of ${count(total)}.` : ""}</p>
      <div class="buttons">
        {page < pages && <button type="button" class="primary" disabled={busy} onClick={() => void look()}>{page === 0 ? "Find them" : "Look further"}</button>}
        <button type="button" onClick={close}>Close</button>
      </div>
    </Dialog>
  );
}

/** The keys that a policy may have. */
function PolicyKeys({ kind, vhost, apply, lines }: { kind: Kind; vhost: string; apply: string; lines: Lines }): JSX.Element {
  const all = useKnown()?.policy_keys ?? [];
  return <Picker label="Definition" what="a key" refused hint="One name=value a line, for example max-length=1000" vhost={vhost} all={all} fitting={keysFor(all, apply, kind === "operator-policies")} lines={lines} />;
}

const EditPolicy = fresh(({ kind, row }: { kind: Kind; row?: PolicyRow }): JSX.Element => {
  const [vhost, setVhost] = useState(row?.vhost ?? (chosenVhost.get() || "/"));
  const [name, setName] = useState(row?.name ?? "");
  const [pattern, setPattern] = useState(row?.pattern ?? "");
  const [apply, setApply] = useState(row?.["apply-to"] ?? "queues");
  const [priority, setPriority] = useState(String(row?.priority ?? 0));
  const lines = useLines(Object.entries(row?.definition ?? {}).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join("\n"));
  const given = typedPairs(lines.all);
  return (
    <Action
      label={row ? "Edit" : "Add a policy"}
      title={row ? `Edit ${row.name}` : "Add a policy"}
      confirm={row ? "Save" : "Add"}
      primary={!row && kind === "policies"}
      command={name && given ? command(["set", "policy"], [...ofKind(kind, vhost), ["--apply-to", apply], ["--priority", priority]], [name, pattern, JSON.stringify(toObject(given))]) : undefined}
      run={async () => {
        const isNew = await put(path(kind, vhost, name), { pattern, "apply-to": apply, priority: Number(priority), definition: toObject(pairs(lines.all)) });
        if (!row) made({ what: WORD[kind], name, vhost, to: href(["admin", "policies"], { shown: keyOf(kind, vhost, name) }), isNew, otherwise: "was there before, and has these settings now" });
      }}
    >
      {!row && <VhostField value={vhost} set={setVhost} />}
      {!row && <Text label="Name" value={name} set={setName} required />}
      <Text label="Names that match" value={pattern} set={setPattern} required hint="A regular expression, for example ^orders\." />
      <Select label="Applies to" value={apply} set={setApply} options={targets(kind === "operator-policies").map((one) => [one, one.replaceAll("_", " ")])} />
      <Text label="Priority" value={priority} set={setPriority} required pattern="-?[0-9]+" />
      <PolicyKeys kind={kind} vhost={vhost} apply={apply} lines={lines} />
    </Action>
  );
});
