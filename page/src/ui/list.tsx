/** A list that the broker sorts, filters and cuts into pages. Its state is in the address. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { me, monitors } from "../lib/me";
import type { Page } from "../lib/names";
import { narrow } from "../lib/narrow";
import { change, place } from "../lib/place";
import { useApi } from "../lib/poll";
import { rateOf } from "../lib/rates";
import { at, count, rate, visible } from "../lib/text";
import { remembered } from "../lib/store";
import { Answer, Check, Chooser, type Column, NotPermitted, Select, Table } from "./parts";

/** The numbers of rows of a page. The broker sends at most 500. */
const PAGE_ROWS = ["50", "100", "200", "500"];
const rowsChosen = remembered("sluice.rows", "50");

/** The time after the last key press until the filter is sent, in milliseconds. */
const TYPING_MS = 300;

export interface ListColumn<T> extends Column<T> {
  /** The fields that the broker must send for this column. */
  fields: string[];
  /** True if the column is shown unless the user chooses. */
  standard?: boolean;
  /** True for what people look for first. On a phone, it stands right behind the name, and so does the link "why?". */
  first?: boolean;
}

/**
 * A column with the present rate of a counter, which is in the field `of` of a row, or in the row itself if that is empty.
 */
export function rateColumn<T>(field: string, label: string, standard: boolean, of = "message_stats", format: (value: unknown) => string = rate): ListColumn<T> {
  const within = (name: string) => (of === "" ? name : `${of}.${name}`);
  return {
    id: field,
    label,
    number: true,
    standard,
    fields: [field, `${field}_details`, "rates_are_known"].map(within),
    sort: within(`${field}_details.rate`),
    cell: (row) => format(rateOf(of === "" ? row : at(row, of), field)),
  };
}

/** A choice that narrows a list: one of several values of a field, or a check box if there are no values. */
export interface OnlyFilter {
  /** The parameter of the broker. */
  param: "type" | "state" | "policy" | "problem";
  label: string;
  values?: string[];
  /** What is to be said below the choice. */
  hint?: ComponentChildren;
}

interface ListProps<T> {
  title: string;
  /** The path of the list, without a query. */
  target: string;
  columns: ListColumn<T>[];
  /** The fields that the broker must always send. */
  keyFields: string[];
  rowKey: (row: T) => string;
  /** What the filter of the broker looks at. */
  filter?: string;
  /** Further filters, which the broker applies. */
  only?: OnlyFilter[];
  actions?: ComponentChildren;
  /** What is to be said about the rows that are not shown. */
  note?: ComponentChildren;
  empty: ComponentChildren;
}

/** Says that a list has only what belongs to the user, if that is so. */
export function OwnOnly({ what }: { what: string }): JSX.Element | null {
  const who = me.use();
  return who === null || monitors(who) ? null : <p class="hint">These are the {what} of your own login. Those of others: <NotPermitted>it needs the tag monitoring</NotPermitted>.</p>;
}

export function List<T>({ title, target, columns, keyFields, rowKey, filter = "name", only = [], actions, note, empty }: ListProps<T>): JSX.Element {
  const { query } = place.use();
  const chosen = query["cols"]?.split(",");
  const isNarrow = narrow.use();
  const inOrder = columns.filter((column) => (chosen ? chosen.includes(column.id) : column.standard) || column.id === "name");
  const rank = (column: ListColumn<T>) => (column === columns[0] ? 0 : column.first ? 1 : column.id === "why" ? 2 : 3);
  const shown = isNarrow ? [...inOrder].sort((a, b) => rank(a) - rank(b)) : inOrder;
  const number = Math.max(1, Number(query["page"]) || 1);
  const name = query["name"] ?? "";
  const by = query["sort"] ?? "";
  const usual = rowsChosen.use();
  const size = PAGE_ROWS.find((one) => one === (query["rows"] ?? usual)) ?? "50";
  const search = new URLSearchParams({ page: String(number), page_size: size });
  if (name) search.set("name", name);
  const narrowed = only.filter(({ param }) => query[param]);
  for (const { param } of narrowed) search.set(param, query[param] ?? "");
  // The broker has the order of names at hand. Any other order costs it a look at all rows.
  if (by && by !== "name") search.set("sort", by);
  if (query["desc"]) search.set("sort_reverse", "true");
  search.set("columns", [...new Set([...keyFields, ...shown.flatMap((column) => column.fields)])].join(","));
  const rows = useApi<Page<T>>(`${target}?${search.toString()}`, { keep: true });
  useEffect(() => {
    // Objects were deleted, so that this page no longer exists.
    if (rows.error?.code === "page_out_of_range" && number > 1) change({ page: undefined });
  }, [rows.error, number]);
  return (
    <section class="list" aria-label={title}>
      <div class="listbar">
        <h1>{title}</h1>
        {rows.data && <span class="total" role="status">{rows.previous ? "looking…" : total(rows.data, name !== "" || narrowed.length > 0)}</span>}
        <Filter value={name} what={filter} />
        {only.length > 0 && <Narrow only={only} active={narrowed.length} />}
        <ColumnChoice columns={columns} shown={shown} />
        {actions && <div class="actions">{actions}</div>}
      </div>
      {note}
      <div class="panel tight">
        <Answer of={rows}>
          {(page) => (
            <>
              <Table
                caption={title}
                columns={shown}
                rows={page.items}
                rowKey={rowKey}
                sorting={{ by: by || "name", descending: query["desc"] === "1", change: (sort, descending) => change({ sort: sort === "name" ? undefined : sort, desc: descending ? "1" : undefined, page: undefined }) }}
                empty={narrowed.length > 0 ? <div class="empty"><p class="title">Nothing fits the filters: {narrowed.map(({ param, label }) => (param === "problem" ? label : `${label} ${visible(query[param] ?? "")}`)).join("; ")}.</p></div> : name ? <div class="empty"><p class="title">{`No ${filter} contains “${visible(name)}”.`}</p></div> : empty}
              />
              {(page.page_count > 1 || size !== "50") && <Pager page={page.page} pages={page.page_count} size={size} />}
            </>
          )}
        </Answer>
      </div>
    </section>
  );
}

function total(page: Page<unknown>, isNarrowed: boolean): string {
  return isNarrowed ? `${count(page.filtered_count)} of ${count(page.total_count)}` : count(page.total_count);
}

function Filter({ value, what }: { value: string; what: string }): JSX.Element {
  const [typed, type] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>();
  useEffect(() => type(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <input
      type="search"
      class="filter"
      aria-label={`Filter by a part of the ${what}`}
      placeholder={`Filter by ${what}`}
      value={typed}
      spellcheck={false}
      onInput={(event) => {
        const text = event.currentTarget.value;
        type(text);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => change({ name: text || undefined, page: undefined }), TYPING_MS);
      }}
    />
  );
}

/** The choices that narrow a list. They are in the address. */
function Narrow({ only, active }: { only: OnlyFilter[]; active: number }): JSX.Element {
  const { query } = place.use();
  return (
    <Chooser label={active > 0 ? `Filters (${active})` : "Filters"} what="Filters">
      {only.map(({ param, label, values, hint }) =>
        values ? (
          <Select label={label} value={query[param] ?? ""} set={(value) => change({ [param]: value || undefined, page: undefined })} options={[["", "any"], ...values.map((one): [string, string] => [one, visible(one)])]} />
        ) : (
          <><Check label={label} value={query[param] === "true"} set={(on) => change({ [param]: on ? "true" : undefined, page: undefined })} />{hint && <p class="hint">{hint}</p>}</>
        ),
      )}
      <button type="button" class="quiet" disabled={active === 0} onClick={() => change(Object.fromEntries([["page", undefined], ...only.map(({ param }) => [param, undefined])]))}>No filters</button>
    </Chooser>
  );
}

function ColumnChoice<T>({ columns, shown }: { columns: ListColumn<T>[]; shown: ListColumn<T>[] }): JSX.Element {
  return (
    <Chooser label="Columns">
      {columns.filter((column) => column.id !== "name" && column.label !== "").map((column) => (
        <label class="check">
          <input
            type="checkbox"
            checked={shown.includes(column)}
            onChange={(event) => {
              const on = event.currentTarget.checked;
              const ids = columns.filter((other) => (other === column ? on : shown.includes(other))).map((other) => other.id);
              change({ cols: ids.join(",") });
            }}
          />{" "}
          {column.label}
        </label>
      ))}
      <button type="button" class="quiet" onClick={() => change({ cols: undefined })}>Standard</button>
    </Chooser>
  );
}

function Pager({ page, pages, size }: { page: number; pages: number; size: string }): JSX.Element {
  const to = (number: number) => change({ page: number > 1 ? String(number) : undefined });
  return (
    <nav class="pager" aria-label="Pages">
      <button type="button" disabled={page <= 1} onClick={() => to(1)}>First</button>
      <button type="button" disabled={page <= 1} onClick={() => to(page - 1)}>Previous</button>
      <span>Page {count(page)} of {count(pages)}</span>
      <button type="button" disabled={page >= pages} onClick={() => to(page + 1)}>Next</button>
      <button type="button" disabled={page >= pages} onClick={() => to(pages)}>Last</button>
      <label>Rows <select value={size} onChange={(event) => { rowsChosen.set(event.currentTarget.value); change({ rows: event.currentTarget.value, page: undefined }); }}>
        {PAGE_ROWS.map((one) => <option value={one} selected={one === size}>{one}</option>)}
      </select></label>
    </nav>
  );
}
