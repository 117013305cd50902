/** Sends dead letters back to where they died. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type ApiError, path, request, toApiError } from "../lib/api";
import { command, inVhost } from "../lib/command";
import { deaths } from "../lib/deaths";
import type { MessageRow } from "../lib/names";
import { refresh } from "../lib/poll";
import { type Filters, type Redriven, body, options } from "../lib/redrive";
import { count, isNumber, plural } from "../lib/text";
import { Action, fresh } from "../ui/actions";
import { Name, Problem, Select, Text } from "../ui/parts";
import { NameField } from "../ui/picker";

const ask = async (vhost: string, name: string, fields: object): Promise<Redriven> => {
  const answer = (await request("POST", path("queues", vhost, name, "redrive"), { body: fields })) as Redriven;
  refresh();
  return answer;
};

/** The button of one dead letter. Nothing is shown for other messages. `name` is the queue that has the message. `gone` says that it has left. */
export function SendBack({ vhost, name, row, gone }: { vhost: string; name: string; row: MessageRow; gone: (said: string) => void }): JSX.Element | null {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const [answer, setAnswer] = useState<Redriven>();
  const died = deaths(row)[0]?.queue;
  if (died === undefined || died === name || row.seq === undefined) return null;
  const send = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const got = await ask(vhost, name, { seq: row.seq });
      setAnswer(got);
      if (got.redriven === 1) gone(`The message went back to the queue ${died}.`);
    } catch (caught) {
      setError(toApiError(caught));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <div class="death buttons">
        <button type="button" disabled={busy} onClick={() => void send()}>Send it back to <Name text={died} /></button>
        {answer?.redriven === 0 && <span role="status">It stays here: <Name text={answer.reason} /></span>}
      </div>
      {error && <Problem error={error} />}
    </>
  );
}

const REASONS: [string, string][] = [
  ["", "any reason"],
  ["rejected", "a consumer rejected it"],
  ["expired", "its time to live ended"],
  ["maxlen", "the queue was full"],
  ["delivery_limit", "it was delivered in vain too often"],
];

const TO: [string, string][] = [
  ["queue", "The queue where they died"],
  ["exchange", "The exchange to which they were published before they died"],
  ["other", "Another queue"],
];

const NONE: Filters = { number: "", reason: "", queue: "", older: "", rate: "", header: "", to: "queue", other: "" };

/** The window that redrives the dead letters of a queue. */
export const Redrive = fresh(({ vhost, name, messages }: { vhost: string; name: string; messages: number | undefined }): JSX.Element => {
  const [filters, setFilters] = useState(NONE);
  // Set while a redrive is not complete: what died since its first request does not go again.
  const [until, setUntil] = useState<number>();
  const field = (key: keyof Filters) => ({
    value: filters[key],
    set: (value: string) => {
      setFilters({ ...filters, [key]: value });
      setUntil(undefined);
    },
  });
  return (
    <Action
      label="Redrive"
      title={`Redrive dead letters of ${name}`}
      confirm={until === undefined ? "Redrive" : "Go on"}
      command={command(["redrive"], [...inVhost(vhost), ...options(filters)], [name])}
      run={async () => {
        const answer = await ask(vhost, name, body(filters, until));
        setUntil(answer.ended === "time" ? answer.died_until : undefined);
        return (
          <p>
            {plural(answer.redriven, "message")} went back, {count(answer.skipped)} stayed. Ready in this queue: {count(answer.left)}. Why it ended: <Name text={answer.reason} />.
          </p>
        );
      }}
    >
      <p>The broker looks at {isNumber(messages) ? plural(messages, "message") : "the messages"} of this queue. Dead letters that match go back. All others keep their places.</p>
      <Select label="They go to" options={TO} {...field("to")} />
      {filters.to === "other" && <NameField kind="queue" vhost={vhost} label="The queue that gets them" required {...field("other")} />}
      <Text label="How many at most" pattern="[1-9][0-9]*" hint="empty: all that match" {...field("number")} />
      <Select label="They died because" options={REASONS} {...field("reason")} />
      <NameField kind="queue" vhost={vhost} label="They died in the queue" hint="empty: in any queue" {...field("queue")} />
      <Text label="They died at least this long ago" pattern="[0-9]+[smhd]" hint="such as 30s, 5m, 1h or 2d" {...field("older")} />
      <Text label="They have the header" pattern="[^=]+=.*" hint="NAME=VALUE, such as country=DE; empty: any" {...field("header")} />
      <Text label="At most per second" pattern="[1-9][0-9]*" hint="empty: as fast as possible" {...field("rate")} />
    </Action>
  );
});
