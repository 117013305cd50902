/** Traces: copies of the messages that pass through one queue or connection, for a limited time. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type ApiError, path, request, toApiError } from "../lib/api";
import { command, inVhost } from "../lib/command";
import { href } from "../lib/place";
import { refresh, useApi } from "../lib/poll";
import { plural } from "../lib/text";
import { Action, fresh } from "../ui/actions";
import { Answer, Name, Problem, Text } from "../ui/parts";

/** The exchange that gets the copies. */
const EXCHANGE = "amq.rabbitmq.trace";

/**
 * The queue of the copies: it is deleted when nobody has used it for an hour, and drops its oldest copies beyond these
 * bounds, so that a forgotten trace fills no disk.
 */
const COPIES = { "x-expires": 3_600_000, "x-max-length": 10_000, "x-max-length-bytes": 64 * 1024 * 1024 };

interface TraceRow {
  name: string;
  queue?: string;
  connection?: string;
  seconds_left?: number;
  messages_left?: number;
}

interface Traced {
  kind: "queue" | "connection";
  vhost: string;
  name: string;
}

/** Starts a trace whose copies go to a queue of its own. Returns the name of both. */
async function start({ kind, vhost, name }: Traced, seconds: number, messages: number): Promise<string> {
  const random = Array.from(crypto.getRandomValues(new Uint8Array(4)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const trace = `trace-${random}`;
  // The trace comes first, because only administrators may start one: a refusal leaves nothing behind. Without its queue, it
  // ends by itself.
  await request("PUT", path("traces", vhost, trace), { body: { [kind]: name, seconds, messages } });
  await request("PUT", path("queues", vhost, trace), { body: { durable: true, arguments: COPIES } });
  await request("POST", path("bindings", vhost, "e", EXCHANGE, "q", trace), { body: { routing_key: "#", arguments: {} } });
  return trace;
}

/** The button and the window that start and stop traces of a queue or a connection. */
export const Trace = fresh(({ of }: { of: Traced }): JSX.Element => {
  const [seconds, setSeconds] = useState("30");
  const [messages, setMessages] = useState("1000");
  return (
    <Action
      label="Trace"
      title={`Trace the messages of ${of.name}`}
      confirm="Start"
      command={command(["trace", of.kind], [...inVhost(of.vhost), ["--for", `${seconds}s`], ["--limit", messages]], [of.name])}
      run={async () => {
        const trace = await start(of, Number(seconds), Number(messages));
        return <p>The trace has begun. Its copies come to the queue <Copies vhost={of.vhost} name={trace} />.</p>;
      }}
    >
      <p>Copies of what passes go to a queue of their own, with who published and who got it. The messages themselves stay as they are. The queue is deleted after an hour without use.</p>
      <Running of={of} />
      <Text label="For how many seconds" value={seconds} set={setSeconds} required pattern="[1-9][0-9]{0,3}" />
      <Text label="How many messages at most" value={messages} set={setMessages} required pattern="[1-9][0-9]{0,6}" />
    </Action>
  );
});

/** The link to the queue with the copies. */
function Copies({ vhost, name }: { vhost: string; name: string }): JSX.Element {
  return <a href={href(["queues", vhost, name])}><Name text={name} /></a>;
}

/** The traces of this queue or connection that run. */
function Running({ of }: { of: Traced }): JSX.Element {
  const traces = useApi<TraceRow[]>(path("traces", of.vhost));
  const [error, setError] = useState<ApiError>();
  const stop = async (name: string) => {
    setError(undefined);
    try {
      await request("DELETE", path("traces", of.vhost, name));
      refresh();
    } catch (caught) {
      setError(toApiError(caught));
    }
  };
  return (
    <Answer of={traces}>
      {(rows) => (
        <>
          {rows.filter((row) => row[of.kind] === of.name).map((row) => (
            <p class="death">
              The trace <Copies vhost={of.vhost} name={row.name} /> runs: {plural(row.seconds_left ?? 0, "second")} and {plural(row.messages_left ?? 0, "message")} are left.{" "}
              <button type="button" onClick={() => void stop(row.name)}>Stop it</button>
            </p>
          ))}
          {error && <Problem error={error} />}
        </>
      )}
    </Answer>
  );
}
