/** Publishes a message. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { exchangeInPath, path, request } from "../lib/api";
import { command, inVhost } from "../lib/command";
import { pairs, toObject, toOptions, typedPairs } from "../lib/pairs";
import { Action } from "../ui/actions";
import { Area, Check, Text } from "../ui/parts";

export function Publish({ vhost, exchange, routingKey }: { vhost: string; exchange: string; routingKey: string }): JSX.Element {
  const [key, setKey] = useState(routingKey);
  const [body, setBody] = useState("");
  const [headers, setHeaders] = useState("");
  const [type, setType] = useState("");
  const [durable, setDurable] = useState(true);
  const options: [string, string][] = [...inVhost(vhost), ["--key", key]];
  if (!durable) options.push(["--durable", "false"]);
  if (type) options.push(["--property", `content_type=${type}`]);
  const given = typedPairs(headers);
  // For the body `-`, the command would read the standard input.
  const hasCommand = given !== undefined && body !== "-";
  return (
    <Action
      label="Publish"
      title={exchange === "" ? `Publish to ${routingKey}` : `Publish to the exchange ${exchange}`}
      confirm="Publish"
      command={hasCommand ? command(["publish"], [...options, ...toOptions("--header", given)], [exchangeInPath(exchange), body]) : undefined}
      run={async () => {
        const properties = { delivery_mode: durable ? 2 : 1, headers: toObject(pairs(headers)), ...(type ? { content_type: type } : {}) };
        const answer = await request("POST", path("exchanges", vhost, exchangeInPath(exchange), "publish"), { body: { properties, routing_key: key, payload: body, payload_encoding: "string" } });
        const routed = typeof answer === "object" && answer !== null && (answer as { routed?: unknown }).routed === true;
        return routed ? "Published and routed." : "Published, but no queue takes it.";
      }}
    >
      {exchange !== "" && <Text label="Routing key" value={key} set={setKey} />}
      <Area label="Body" value={body} set={setBody} rows={6} />
      <Text label="Content type" value={type} set={setType} placeholder="application/json" />
      <Area label="Headers" value={headers} set={setHeaders} rows={2} hint="One name=value a line" />
      <Check label="Durable: it survives a restart" value={durable} set={setDurable} />
    </Action>
  );
}
