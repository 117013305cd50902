/** Buttons that change something: each opens a window with what will happen, and the command that does the same. */
import { type ComponentChildren, createContext, type JSX } from "preact";
import { useContext, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type ApiError, toApiError } from "../lib/api";
import { administers, me } from "../lib/me";
import { narrow } from "../lib/narrow";
import { notice } from "../lib/notice";
import { leave } from "../lib/place";
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

/** How often the window of a form has been opened or closed, and whether it is open. */
interface Round {
  number: number;
  isOpen: boolean;
  next: (isOpen: boolean) => void;
}

const Rounds = createContext<Round | null>(null);

/**
 * Returns a component whose fields begin anew each time its window opens or closes, so that none keeps what was typed for another
 * object. `Form` holds the fields and draws one [`Action`].
 */
export function fresh<P extends object>(Form: (props: P) => JSX.Element | null): (props: P) => JSX.Element {
  return function Fresh(props: P): JSX.Element {
    const [round, setRound] = useState({ number: 0, isOpen: false });
    const next = (isOpen: boolean) => setRound(({ number }) => ({ number: number + 1, isOpen }));
    return <Rounds.Provider value={{ ...round, next }}><Form key={round.number} {...props} /></Rounds.Provider>;
  };
}

/** Gives the focus back to the button of a window that was closed, or to the choices in which the button is. They close, too. */
function giveBack(button: HTMLButtonElement | null): void {
  const chooser = button?.closest<HTMLDetailsElement>("details.once[open]");
  if (!chooser) return button?.focus();
  chooser.open = false;
  chooser.querySelector("summary")?.focus();
}

export function Action({ label, title, confirm, danger, primary, command, children, run }: ActionProps): JSX.Element {
  const round = useContext(Rounds);
  const button = useRef<HTMLButtonElement>(null);
  const [open, setOpen] = useState(round?.isOpen ?? false);
  const wasOpen = useRef((round?.number ?? 0) > 0);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const [said, say] = useState<ComponentChildren>();
  const turn = round?.next ?? setOpen;
  useLayoutEffect(() => {
    if (!open && wasOpen.current) giveBack(button.current);
    wasOpen.current = open;
  }, [open]);
  const close = () => {
    turn(false);
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
      <button ref={button} type="button" class={danger ? "danger" : primary ? "primary" : undefined} onClick={() => turn(true)}>{label}</button>
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

/** Says what was done, where the address `to` leads if there is one. */
export function done(said: ComponentChildren, to?: string): void {
  if (to !== undefined) leave(to);
  notice.set(<p>{said}</p>);
}

/** What the page says about the last change. It is drawn when it is empty, too, so that screen readers read it when it comes. */
export function Notice(): JSX.Element {
  const said = notice.use();
  return <div class="notice" role="status">{said && <>{said}<button type="button" class="quiet" aria-label="Close the notice" onClick={() => notice.set(null)}>✕</button></>}</div>;
}

/** The buttons of a view. On a phone, they are behind one, because what is looked for comes first. */
export function Actions({ children }: { children: ComponentChildren }): JSX.Element {
  if (!narrow.use()) return <div class="actions">{children}</div>;
  return <Chooser label="Actions" once>{children}</Chooser>;
}

/** What only administrators may use. Others do not see it. */
export function AdminOnly({ children, instead }: { children: ComponentChildren; instead?: ComponentChildren }): JSX.Element {
  return <>{administers(me.use()) ? children : instead}</>;
}

/** The sentence of a question that names an object. */
export function Named({ before, name, after }: { before: string; name: string; after?: string }): JSX.Element {
  return <p>{before} <strong class="name"><Name text={name} /></strong>{after}</p>;
}
