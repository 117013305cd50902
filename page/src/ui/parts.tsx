/** The small parts of which all views are made. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { ApiError } from "../lib/api";
import { narrow } from "../lib/narrow";
import { href } from "../lib/place";
import { type Tone } from "../lib/causes";
import { withoutEffect } from "../lib/names";
import { DASH, at, pieces, visible } from "../lib/text";

/** A name, always as text. Characters that cannot be seen are escaped. */
export function Name({ text }: { text: string }): JSX.Element {
  return <>{pieces(text).map(({ text: part, escaped }) => (escaped ? <span class="escape">{part}</span> : arrows(part)))}</>;
}

/** A sentence of the broker. It has its commands between backticks. */
export function Words({ text }: { text: string }): JSX.Element {
  const parts = text.split("`");
  // A name may have a backtick, too.
  if (parts.length % 2 === 0) return <Name text={text} />;
  return <>{parts.map((part, i) => (i % 2 === 0 ? <Name text={part} /> : <code><Name text={part} /></code>))}</>;
}

/** Keeps the arrow in the name of a connection on one line. */
function arrows(text: string): ComponentChildren {
  const [first, ...rest] = text.split("->");
  return [first, ...rest.flatMap((part) => [<span class="nowrap">-&gt;</span>, part])];
}

export function NameLink({ to, text }: { to: string; text: string }): JSX.Element {
  return (
    <a href={to} class="name">
      <Name text={text} />
    </a>
  );
}

/** The link to the answer to "why does nothing move?". */
export function Why({ kind, vhost, name, connection }: { kind: "queue" | "link" | "connection"; vhost?: string; name: string; connection?: string }): JSX.Element {
  return (
    <a class="why" href={href(["why"], { kind, vhost, name, connection })} title="Why does nothing move?" aria-label={`Why does nothing move at the ${kind} ${visible(name)}?`}>
      why?
    </a>
  );
}

export function Panel({ title, aside, children, tight }: { title: string; aside?: ComponentChildren; children: ComponentChildren; tight?: boolean }): JSX.Element {
  const id = useId();
  return (
    <section class={tight ? "panel tight" : "panel"} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {aside && <div class="aside">{aside}</div>}
      </header>
      {children}
    </section>
  );
}

/** Labels and values. */
export function Facts({ items }: { items: [string, ComponentChildren][] }): JSX.Element {
  return (
    <dl class="facts">
      {items.map(([label, value]) => (
        <div>
          <dt>{label}</dt>
          <dd>{value === undefined || value === null || value === "" ? DASH : value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A large number with its label. */
export function Tile({ label, value, note, to }: { label: string; value: ComponentChildren; note?: ComponentChildren; to?: string }): JSX.Element {
  const inside = (
    <>
      <span class="label">{label}</span>
      <span class="value">{value}</span>
      {note !== undefined && <span class="note">{note}</span>}
    </>
  );
  return to ? <a class="tile" href={to}>{inside}</a> : <div class="tile">{inside}</div>;
}

export function Badge({ tone = "calm", children }: { tone?: Tone | "plain"; children: ComponentChildren }): JSX.Element {
  return <span class={`badge ${tone}`}>{children}</span>;
}

export function State({ state }: { state: string | undefined }): JSX.Element {
  if (!state) return <>{DASH}</>;
  const tone: Tone = state === "running" || state === "leader" ? "good" : state === "flow" || state === "blocked" || state === "recovering" ? "warn" : state === "damaged" ? "bad" : "calm";
  return <span class={`state ${tone}`}>{state}</span>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="title">{title}</p>
      {children && <p>{children}</p>}
    </div>
  );
}

/** Stands for what the broker has and does not show to this user. It is never a zero, a dash or an empty list. */
export function NotPermitted({ children }: { children?: ComponentChildren }): JSX.Element {
  return <span class="refusal">not permitted{children && <> ({children})</>}</span>;
}

/** An error of the API, with the broker's own reason. */
export function Problem({ error }: { error: ApiError }): JSX.Element {
  if (error.unreachable) return <p class="problem" role="status">The broker does not answer.</p>;
  return (
    <div class={error.refused ? "problem refused" : "problem"} role="status">
      {error.code !== "page" && <strong>{error.refused ? "Not permitted" : error.status === 404 ? "Not found" : "The broker refuses"}</strong>}
      <span><Words text={error.reason} /></span>
    </div>
  );
}

/** A view whose object does not exist, or is not known yet: one message, and nothing that acts on the object. */
export function Absent({ what, name, title = name, list, label, of }: { what: string; name: string; title?: string; list: string; label: string; of: { data: unknown; error: ApiError | undefined } }): JSX.Element {
  return (
    <>
      <p class="crumbs"><a href={list}>{label}</a></p>
      <h1 class="name"><Name text={title} /></h1>
      {isMissing(of.error) ? (
        <div class="problem" role="status">
          <strong>Not found</strong>
          <span>There is no {what} <b class="name"><Name text={name} /></b>. It was deleted or has ended, or you may not see it.</span>
        </div>
      ) : <Answer of={of}>{() => null}</Answer>}
    </>
  );
}

/** True if the broker says that the object of a view does not exist. */
function isMissing(error: ApiError | undefined): boolean {
  return error !== undefined && error.status === 404 && !error.refused;
}

/** Returns the object of a view, or undefined if the view has nothing to show of it but [`Absent`]. */
export function present<T>({ data, error }: { data: T | undefined; error: ApiError | undefined }): T | undefined {
  return isMissing(error) ? undefined : data;
}

/** Shows an answer, its error, or that it is on its way. After an error, the last answer stays, greyed. */
export function Answer<T>({ of, children }: { of: { data: T | undefined; error: ApiError | undefined }; children: (data: T) => ComponentChildren }): JSX.Element {
  const { data, error } = of;
  return (
    <>
      {error && !(error.unreachable && data !== undefined) && <Problem error={error} />}
      {data !== undefined ? <div class={error ? "answer stale" : "answer"}>{children(data)}</div> : !error && <p class="loading">Loading…</p>}
    </>
  );
}

/** A bar that shows how much of a limit is used. The caller knows whether that is bad: a full cache is not. */
export function Bar({ label, used, limit, text, tone }: { label: string; used: unknown; limit: unknown; text: string; tone?: "warn" | "bad" | undefined }): JSX.Element {
  const part = typeof used === "number" && typeof limit === "number" && limit > 0 ? Math.min(1, Math.max(0, used / limit)) : 0;
  return (
    <div class="bar">
      <span class="label">{label}</span>
      <span class="track" role="img" aria-label={label ? `${label}: ${text}` : text}>
        <span class={tone ? `fill ${tone}` : "fill"} style={{ width: `${(part * 100).toFixed(1)}%` }} />
      </span>
      <span class="text">{text}</span>
    </div>
  );
}

export interface Column<T> {
  id: string;
  label: string;
  /** True for numbers: they are aligned to the right. */
  number?: boolean;
  cell: (row: T) => ComponentChildren;
  /** The field by which the broker sorts. Without one, the list cannot be sorted by this column. */
  sort?: string;
}

export interface Sorting {
  by: string;
  descending: boolean;
  change: (by: string, descending: boolean) => void;
}

/** A table with headers. If it is too wide, it scrolls within itself, also by keyboard. */
export function Table<T>({ caption, columns: all, rows, sorting, rowKey, empty }: { caption: string; columns: Column<T>[]; rows: T[]; sorting?: Sorting; rowKey?: (row: T) => string; empty?: ComponentChildren }): JSX.Element {
  // On a phone, what can be done with a row would be far away from its name.
  const isNarrow = narrow.use();
  if (rows.length === 0 && empty) return <>{empty}</>;
  const actions = all.findIndex((column) => column.id === "actions");
  const columns = isNarrow && actions > 1 ? [...all.slice(0, 1), ...all.slice(actions, actions + 1), ...all.slice(1, actions), ...all.slice(actions + 1)] : all;
  return (
    <div class="scroll" role="region" aria-label={`${caption}, table`} tabIndex={0}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => {
              const active = sorting !== undefined && column.sort !== undefined && sorting.by === column.sort;
              const order = active ? (sorting.descending ? "descending" : "ascending") : undefined;
              return (
                <th scope="col" class={column.number ? "number" : undefined} aria-sort={order}>
                  {sorting && column.sort !== undefined ? (
                    <button type="button" class="sort" onClick={() => sorting.change(column.sort ?? "", active ? !sorting.descending : column.number === true)}>
                      {column.label}
                      <span aria-hidden="true" class="arrow">{active ? (sorting.descending ? "▾" : "▴") : ""}</span>
                    </button>
                  ) : (
                    column.label || <span class="hidden">Actions</span>
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={rowKey ? rowKey(row) : i}>
              {columns.map((column) => (
                <td class={column.number ? "number" : undefined}>{column.cell(row)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The fields of a map, or a dash. */
export function Fields({ map }: { map: Record<string, unknown> | undefined | null }): JSX.Element {
  const entries = Object.entries(map ?? {});
  if (entries.length === 0) return <>{DASH}</>;
  return (
    <ul class="fields">
      {entries.map(([key, value]) => (
        <li>
          <span class="key"><Name text={key} /></span> <Name text={value === "" ? "(empty)" : typeof value === "string" ? value : JSON.stringify(value)} />
        </li>
      ))}
    </ul>
  );
}

/** A fact for each argument that the broker does not know. */
export function unknownArguments(map: Record<string, string | null> | undefined): [string, ComponentChildren][] {
  return Object.entries(map ?? {}).map(([name, meant]) => ["Unknown argument", <><Name text={name} /> {withoutEffect(meant)}</>]);
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }): JSX.Element {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      // Browsers allow this only on encrypted connections and on this machine.
      say("Select the text and copy it");
    }
    setTimeout(() => say(""), 2000);
  };
  return (
    <button type="button" class="quiet" onClick={() => void copy()}>
      <span aria-live="polite">{said || label}</span>
    </button>
  );
}

/** The command that does the same. */
export function Command({ text }: { text: string }): JSX.Element {
  return (
    <div class="command">
      <code>{text}</code>
      <Copy text={text} label="Copy command" />
    </div>
  );
}

/** A window in front of the page. Escape closes it. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = box.current;
    const before = document.activeElement;
    dialog?.showModal();
    // The browser would choose the button that closes the window.
    dialog?.querySelector<HTMLElement>("form :is(input, select, textarea)")?.focus();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={box} aria-labelledby={id} onCancel={(event) => { event.preventDefault(); close(); }}>
      <header>
        <h2 id={id}><Name text={title} /></h2>
        <button type="button" class="quiet" aria-label="Close" onClick={close}>✕</button>
      </header>
      {children}
    </dialog>
  );
}

/** A field of a form with its label. */
export function Field({ label, hint, children }: { label: string; hint?: string; children: (id: string) => ComponentChildren }): JSX.Element {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id)}
      {hint && <p class="hint">{hint}</p>}
    </div>
  );
}

interface TextProps {
  label: string;
  value: string;
  set: (value: string) => void;
  hint?: string;
  required?: boolean;
  type?: string;
  pattern?: string;
  placeholder?: string;
  list?: string;
  /** What is wrong with the value. The form is not sent as long as there is something. */
  fault?: string | undefined;
  /** What the browser may fill in. */
  autocomplete?: string;
}

export function Text({ label, value, set, hint, required, type = "text", pattern, placeholder, list, fault = "", autocomplete = type === "password" ? "new-password" : "off" }: TextProps): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.setCustomValidity(fault), [fault]);
  return (
    <Field label={label} {...(hint ? { hint } : {})}>
      {(id) => <input ref={input} id={id} type={type} value={value} required={required} pattern={pattern} placeholder={placeholder} list={list} autocomplete={autocomplete} autocapitalize="none" spellcheck={false} onInput={(event) => set(event.currentTarget.value)} />}
    </Field>
  );
}

export function Area({ label, value, set, hint, rows = 4 }: { label: string; value: string; set: (value: string) => void; hint?: string; rows?: number }): JSX.Element {
  return (
    <Field label={label} {...(hint ? { hint } : {})}>
      {(id) => <textarea id={id} rows={rows} value={value} autocapitalize="none" spellcheck={false} onInput={(event) => set(event.currentTarget.value)} />}
    </Field>
  );
}

export function Select({ label, value, set, options }: { label: string; value: string; set: (value: string) => void; options: [string, string][] }): JSX.Element {
  return (
    <Field label={label}>
      {(id) => (
        <select id={id} value={value} onChange={(event) => set(event.currentTarget.value)}>
          {options.map(([key, text]) => <option value={key} selected={key === value}>{text}</option>)}
        </select>
      )}
    </Field>
  );
}

export function Check({ label, value, set }: { label: string; value: boolean; set: (value: boolean) => void }): JSX.Element {
  return (
    <label class="check">
      <input type="checkbox" checked={value} onChange={(event) => set(event.currentTarget.checked)} /> {label}
    </label>
  );
}

/**
 * Choices that unfold over the page, until the user presses Escape or clicks elsewhere. `what` names them if the label has more than
 * their name. With `once`, they also close after a choice.
 */
export function Chooser({ label, what = label, menu, once, children }: { label: string; what?: string; menu?: boolean; once?: boolean; children: ComponentChildren }): JSX.Element {
  const box = useRef<HTMLDetailsElement>(null);
  const close = () => {
    if (box.current) box.current.open = false;
  };
  useEffect(() => {
    const elsewhere = (event: Event) => {
      if (event.target instanceof Node && !box.current?.contains(event.target)) close();
    };
    const escape = (event: KeyboardEvent) => {
      // A window that is open in front of the choices has this key.
      if (event.key !== "Escape" || !box.current?.open || document.querySelector("dialog[open]")) return;
      close();
      box.current.querySelector("summary")?.focus();
    };
    document.addEventListener("pointerdown", elsewhere);
    document.addEventListener("keydown", escape);
    return () => {
      document.removeEventListener("pointerdown", elsewhere);
      document.removeEventListener("keydown", escape);
    };
  }, []);
  // A button opens a window that is part of the choices. They close with it.
  const chosen = once ? { onChange: (event: Event) => { if (event.target instanceof Element && !event.target.closest("dialog")) close(); }, onClick: (event: Event) => { if (event.target instanceof Element && event.target.closest("a") && !event.target.closest("dialog")) close(); } } : {};
  return (
    <details ref={box} class={["chooser", menu && "menu", once && "once"].filter(Boolean).join(" ")}>
      <summary>{label}</summary>
      <fieldset {...chosen}>
        <legend class="hidden">{what}</legend>
        {children}
      </fieldset>
    </details>
  );
}

/** A number of a row at a path, formatted. */
export function show(row: unknown, field: string, format: (value: unknown) => string): string {
  return format(at(row, field));
}
