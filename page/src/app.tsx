/** The frame: login, navigation, alarms, and the view that the address names. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, basic, goneSince, login, loginNote, path, request, toApiError } from "./lib/api";
import { type Me, me } from "./lib/me";
import type { AlarmAnswer } from "./lib/names";
import { narrow } from "./lib/narrow";
import { href, leave, place } from "./lib/place";
import { begin, finish, isBack, provider, type Provider } from "./lib/oauth";
import { INTERVALS, interval, useApi } from "./lib/poll";
import { time, visible } from "./lib/text";
import { THEMES, theme } from "./lib/theme";
import { vhost } from "./lib/vhost";
import { Notice } from "./ui/actions";
import { Chooser, Empty, Name, Problem, Text } from "./ui/parts";
import { Admin } from "./views/admin";
import { Channels, ChannelView, Consumers } from "./views/channels";
import { Connections, ConnectionView } from "./views/connections";
import { Exchanges, ExchangeView } from "./views/exchanges";
import { OverviewView } from "./views/overview";
import { QueueView } from "./views/queue";
import { Queues } from "./views/queues";
import { Routing } from "./views/routing";
import { Sessions, SessionView } from "./views/sessions";
import { WhyView } from "./views/why";

const VIEWS: [string, string][] = [
  ["", "Overview"],
  ["queues", "Queues and streams"],
  ["connections", "Connections"],
  ["sessions", "Sessions"],
  ["channels", "Channels"],
  ["consumers", "Consumers"],
  ["exchanges", "Exchanges"],
  ["routing", "Routing try-out"],
  ["why", "Why does nothing move?"],
  ["admin", "Admin"],
];

export function App(): JSX.Element {
  return login.use() ? <Frame /> : <LoginView />;
}

function LoginView(): JSX.Element {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const [at, setAt] = useState<Provider | null>(null);
  const note = loginNote.use();
  const submit = async () => {
    setBusy(true);
    setError(undefined);
    const tried = basic(user, password);
    try {
      await request("GET", path("whoami"), { login: tried });
      loginNote.set("");
      login.set(tried);
    } catch (caught) {
      const shown = toApiError(caught);
      const wrong = shown.status === 401 && !shown.refused;
      setError(wrong ? new ApiError(400, "login", "The broker does not know this user with this password, or does not let the user log in from here.") : shown);
      setBusy(false);
    }
  };
  const signIn = async (step: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    try {
      await step();
    } catch (caught) {
      setError(toApiError(caught));
      setBusy(false);
    }
  };
  useEffect(() => {
    // A broker that does not answer is noticed when somebody logs in.
    provider().then(setAt, () => setAt(null));
    if (!isBack(location.search)) return;
    void signIn(async () => {
      const done = await finish();
      loginNote.set("");
      login.set(done);
    });
  }, []);
  return (
    <main class="login">
      <form onSubmit={(event) => { event.preventDefault(); void submit(); }}>
        <h1><span class="mark" aria-hidden="true" />Sluice</h1>
        {note && <p class="note" role="status">{note}</p>}
        {(!at || at.passwords) && (
          <>
            <Text label="User" value={user} set={setUser} required autocomplete="username" />
            <Text label="Password" type="password" value={password} set={setPassword} autocomplete="current-password" />
          </>
        )}
        {error && <Problem error={error} />}
        {(!at || at.passwords) && <button type="submit" class="primary" disabled={busy}>Log in</button>}
        {at && <button type="button" class={at.passwords ? "" : "primary"} disabled={busy} onClick={() => void signIn(() => begin(at))}>Sign in with the identity provider</button>}
      </form>
    </main>
  );
}

function Frame(): JSX.Element {
  const { path: at } = place.use();
  const gone = goneSince.use();
  const view = at[0] ?? "";
  const who = useApi<Me>(path("whoami"));
  useEffect(() => {
    if (who.data && JSON.stringify(who.data) !== JSON.stringify(me.get())) me.set(who.data);
  }, [who.data]);
  useEffect(() => () => me.set(null), []);
  useEffect(() => {
    const title = VIEWS.find(([id]) => id === view)?.[1] ?? "Sluice";
    document.title = `${at.length > 1 ? `${visible(at.at(-1) ?? "")} – ` : ""}${title} – Sluice`;
    // On a phone, the navigation is one line that scrolls.
    document.querySelector("nav.side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [at]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the content</a>
      <header class="top">
        <a class="brand" href="#/"><span class="mark" aria-hidden="true" />Sluice</a>
        <Health />
        <Tools>
          <VhostChoice />
          <label>Every <select value={interval.use()} onChange={(event) => interval.set(event.currentTarget.value)}>
            {INTERVALS.map((seconds) => <option value={seconds} selected={seconds === interval.get()}>{seconds === "0" ? "never" : `${seconds} s`}</option>)}
          </select></label>
          <label>Theme <select value={theme.use()} onChange={(event) => theme.set(event.currentTarget.value)}>
            {THEMES.map((name) => <option value={name} selected={name === theme.get()}>{name}</option>)}
          </select></label>
          <span class="user"><Name text={login.get()?.user ?? ""} /></span>
          <button type="button" class="quiet" onClick={logOut}>Log out</button>
        </Tools>
      </header>
      <nav class="side" aria-label="Views">
        <ul>
          {VIEWS.map(([id, label]) => (
            <li><a href={id === "" ? "#/" : `#/${id}`} aria-current={view === id ? "page" : undefined}>{label}</a></li>
          ))}
        </ul>
      </nav>
      <main id="main" tabIndex={-1} class={gone === null ? undefined : "gone"}>
        {gone !== null && (
          <p class="banner bad" role="alert">The broker has not answered since {time(gone)}. What you see is older. The page asks again every two seconds.</p>
        )}
        <Notice />
        <View at={at} />
      </main>
    </>
  );
}

/** Ends the login. The next user begins at the overview. */
function logOut(): void {
  leave(href([]));
  loginNote.set("");
  login.set(null);
}

/** The choices of the header. On a phone, they are behind a button, so that the header is one row. */
function Tools({ children }: { children: ComponentChildren }): JSX.Element {
  if (!narrow.use()) return <div class="tools">{children}</div>;
  return <Chooser label="Menu" menu once>{children}</Chooser>;
}

/** One glance: is the broker well? Alarms are shown in every view. */
function Health(): JSX.Element {
  const gone = goneSince.use();
  const isNarrow = narrow.use();
  const alarms = useApi<AlarmAnswer>(path("health", "checks", "alarms"), { answers: [503] });
  if (gone !== null) return <p class="health bad" role="status">No answer</p>;
  if (alarms.data?.alarms?.length) {
    const list = alarms.data.alarms.map(({ resource, node }) => `${resource ?? "?"} on ${node ?? "?"}`).join(", ");
    // A phone has no room for the names of nodes. The overview has them.
    const brief = [...new Set(alarms.data.alarms.map(({ resource }) => resource ?? "?"))].join(", ");
    return <p class="health bad" role="alert" title={list}><a href={href([])}>Alarm: {visible(isNarrow ? brief : list)}. Publishing is stopped.</a></p>;
  }
  if (alarms.error) return <p class="health calm" role="status" title={alarms.error.reason}>{alarms.error.refused ? "Alarms: not permitted" : "Alarms unknown"}</p>;
  return <p class="health good" role="status">{alarms.data ? "No alarms" : "…"}</p>;
}

function VhostChoice(): JSX.Element {
  const vhosts = useApi<{ name: string }[]>(`${path("vhosts")}?columns=name&disable_stats=true`, {});
  const chosen = vhost.use();
  const names = vhosts.data?.map((row) => row.name) ?? [];
  useEffect(() => {
    // The remembered virtual host was deleted, or belongs to another broker.
    if (vhosts.data && chosen !== "" && !names.includes(chosen)) vhost.set("");
  }, [vhosts.data]);
  return (
    <label>Virtual host <select value={chosen} onChange={(event) => vhost.set(event.currentTarget.value)}>
      <option value="" selected={chosen === ""}>all</option>
      {names.map((name) => <option value={name} selected={chosen === name}>{visible(name)}</option>)}
    </select></label>
  );
}

function View({ at }: { at: string[] }): JSX.Element {
  const [view = "", first, second] = at;
  const key = at.join("/");
  switch (view) {
    case "":
      return <OverviewView />;
    case "queues":
      return first !== undefined && second !== undefined ? <QueueView key={key} vhost={first} name={second} /> : <Queues />;
    case "connections":
      return first !== undefined ? <ConnectionView key={key} name={first} /> : <Connections />;
    case "sessions":
      return first !== undefined ? <SessionView key={key} name={first} /> : <Sessions />;
    case "channels":
      return first !== undefined ? <ChannelView key={key} name={first} /> : <Channels />;
    case "consumers":
      return <Consumers />;
    case "exchanges":
      return first !== undefined && second !== undefined ? <ExchangeView key={key} vhost={first} name={second} /> : <Exchanges />;
    case "routing":
      return <Routing />;
    case "why":
      return <WhyView />;
    case "admin":
      return <Admin key={key} tab={first ?? "vhosts"} name={second} />;
    default:
      return <Empty title="There is no such view.">Go to the <a href={href([])}>overview</a>.</Empty>;
  }
}
