/** Moves messages to another queue or to an exchange. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { path, request } from "../lib/api";
import { command, inVhost } from "../lib/command";
import type { MessageRow } from "../lib/names";
import { type Moved, type Wish, moveBody, moveOptions } from "../lib/redrive";
import { count, isNumber, plural } from "../lib/text";
import { Action, Named, fresh } from "../ui/actions";
import { Name, Select, Text } from "../ui/parts";
import { NameField } from "../ui/picker";

const TO: [string, string][] = [
  ["queue", "Another queue"],
  ["exchange", "An exchange, and each queue to which it routes them"],
];

const NONE: Wish = { to: "queue", target: "", key: "", number: "", header: "", rate: "" };

const send = async (vhost: string, name: string, fields: object): Promise<Moved> =>
  (await request("POST", path("queues", vhost, name, "move"), { body: fields })) as Moved;

/** The window that moves messages of a queue: all of them, some, or those with a header. */
export const Move = fresh(({ vhost, name, messages }: { vhost: string; name: string; messages: number | undefined }): JSX.Element => {
  const [wish, setWish] = useState(NONE);
  // Set while a move is not complete: what came since its first request is not moved.
  const [until, setUntil] = useState<number>();
  const field = (key: keyof Wish) => ({
    value: wish[key],
    set: (value: string) => {
      setWish({ ...wish, [key]: value });
      setUntil(undefined);
    },
  });
  return (
    <Action
      label="Move"
      title={`Move the messages of ${name}`}
      confirm={until === undefined ? "Move" : "Go on"}
      command={command(["move"], [...inVhost(vhost), ...moveOptions(wish)], [name])}
      run={async () => {
        const answer = await send(vhost, name, moveBody(wish, until));
        setUntil(answer.ended === "time" ? answer.until_seq : undefined);
        return (
          <p>
            {plural(answer.moved, "message")} moved, {count(answer.skipped)} stayed. Ready in this queue: {count(answer.left)}. Why it ended: <Name text={answer.reason} />.
          </p>
        );
      }}
    >
      <p>{isNumber(messages) ? plural(messages, "message") : "The messages"} of this queue can be moved. Each leaves this queue only when its target has it. Those that do not match keep their places.</p>
      <Target vhost={vhost} wish={wish} field={field} />
      <Text label="How many at most" pattern="[1-9][0-9]*" hint="empty: all that match" {...field("number")} />
      <Text label="They have the header" pattern="[^=]+=.*" hint="NAME=VALUE, such as country=DE; empty: any" {...field("header")} />
      <Text label="At most per second" pattern="[1-9][0-9]*" hint="empty: as fast as possible" {...field("rate")} />
    </Action>
  );
});

interface TargetProps {
  vhost: string;
  wish: Wish;
  field: (key: keyof Wish) => { value: string; set: (value: string) => void };
}

function Target({ vhost, wish, field }: TargetProps): JSX.Element {
  return (
    <>
      <Select label="They go to" options={TO} {...field("to")} />
      <NameField kind={wish.to === "exchange" ? "exchange" : "queue"} withDefault vhost={vhost} label={wish.to === "exchange" ? "The exchange that gets them" : "The queue that gets them"} required {...field("target")} />
      {wish.to === "exchange" && <Text label="Routing key" hint="empty: each message keeps its own" {...field("key")} />}
    </>
  );
}

/** The button that moves one message that is shown. `name` is the queue that has the message. `gone` says that it has left. */
export const MoveOne = fresh(({ vhost, name, row, gone }: { vhost: string; name: string; row: MessageRow; gone: (said: string) => void }): JSX.Element | null => {
  const [wish, setWish] = useState(NONE);
  const { seq } = row;
  if (seq === undefined) return null;
  const field = (key: keyof Wish) => ({ value: wish[key], set: (value: string) => setWish({ ...wish, [key]: value }) });
  return (
    <div class="buttons">
      <Action
        label="Move this message"
        title="Move this message?"
        confirm="Move"
        command={command(["move"], [...inVhost(vhost), ...moveOptions(wish), ["--seq", String(seq)]], [name])}
        run={async () => {
          const answer = await send(vhost, name, { ...moveBody(wish), seq });
          if (answer.moved !== 1) return <p>It stays here: <Name text={answer.reason} /></p>;
          gone(`The message was moved to ${wish.target}.`);
          return undefined;
        }}
      >
        <Named before="The message leaves the queue" name={name} after=" when its target has it." />
        <Target vhost={vhost} wish={wish} field={field} />
      </Action>
    </div>
  );
});
