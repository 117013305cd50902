/** Buttons that change something: each opens a window with what will happen, and the command that does the same. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { type ApiError, toApiError } from "../lib/api";
import { administers, me } from "../lib/me";
import { narrow } from "../lib/narrow";
import { notice } from "../lib/notice";
import { refresh } from "../lib/poll";
import { Chooser, Command, Dialog, Name, NameLink, Problem } from "./parts";

interface ActionProps {
  /** The text of the button. */
  label: string;
  title: string;
  /** The text of the button in the window. */
  confirm: string;
  danger?: boolean;
  primary?: boolean;
  command?: string | undefined;
  children?: ComponentChildren;
  /** Does it. Returns what to say, or nothing to close the window. */
  run: () => Promise<ComponentChildren | void>;
}

export function Action({ label, title, confirm, danger, primary, command, children, run }: ActionProps): JSX.Element {
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const [said, say] = useState<ComponentChildren>();
  const close = () => {
    setOpen(false);
    setError(undefined);
    say(undefined);
  };
  const submit = async () => {
    setBusy(true);
    setError(undefined);
    say(undefined);
    try {
      const result = await run();
      refresh();
      if (result === undefined) close();
      else say(result);
    } catch (caught) {
      setError(toApiError(caught));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <button type="button" class={danger ? "danger" : primary ? "primary" : undefined} onClick={() => setOpen(true)}>{label}</button>
      {open && (
        <Dialog title={title} close={close}>
          <form onSubmit={(event) => { event.preventDefault(); void submit(); }}>
            {children}
            {error && <Problem error={error} />}
            {said !== undefined && <div class="said" role="status">{said}</div>}
            <div class="buttons">
              <button type="submit" class={danger ? "danger" : "primary"} disabled={busy}>{confirm}</button>
              <button type="button" onClick={close}>{said === undefined ? "Cancel" : "Close"}</button>
            </div>
            {command !== undefined && <Command text={command} />}
          </form>
        </Dialog>
      )}
    </>
  );
}

interface Made {
  /** What kind of object it is, such as "queue". */
  what: string;
  name: string;
  vhost?: string;
  /** The address of its page, or of the list that has it. */
  to: string;
  isNew: boolean;
  /** What has happened to an object that was there before. */
  otherwise?: string;
  /** What is to be done next. */
  next?: string;
}

/** Says what was made, with a link to it. */
export function made({ what, name, vhost, to, isNew, otherwise = "was there before, with the same settings", next }: Made): void {
  notice.set(<p>The {what} <NameLink to={to} text={name} />{vhost !== undefined && <> in the virtual host <b><Name text={vhost} /></b></>} {isNew ? "was created" : otherwise}.{next && ` ${next}`}</p>);
}

/** What the page says about the last change. It is drawn when it is empty, too, so that screen readers read it when it comes. */
export function Notice(): JSX.Element {
  const said = notice.use();
  return <div class="notice" role="status">{said && <>{said}<button type="button" class="quiet" aria-label="Close the notice" onClick={() => notice.set(null)}>✕</button></>}</div>;
}

/** The buttons of a view. On a phone, they are behind one, because what is looked for comes first. */
export function Actions({ children }: { children: ComponentChildren }): JSX.Element {
  if (!narrow.use()) return <div class="actions">{children}</div>;
  return <Chooser label="Actions">{children}</Chooser>;
}

/** What only administrators may use. Others do not see it. */
export function AdminOnly({ children, instead }: { children: ComponentChildren; instead?: ComponentChildren }): JSX.Element {
  return <>{administers(me.use()) ? children : instead}</>;
}

/** The sentence of a question that names an object. */
export function Named({ before, name, after }: { before: string; name: string; after?: string }): JSX.Element {
  return <p>{before} <strong class="name"><Name text={name} /></strong>{after}</p>;
}
