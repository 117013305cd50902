/** Publishes a message. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { exchangeInPath, path, request } from "../lib/api";
import { command, inVhost } from "../lib/command";
import { pairs, toObject, toOptions, typedPairs } from "../lib/pairs";
import { Action, fresh } from "../ui/actions";
import { Area, Check, Select, Text } from "../ui/parts";

/** The properties of a message besides its headers and whether it is durable. Numbers have the largest value. */
const PROPERTIES: { name: string; label: string; hint?: string; most?: number }[] = [
  { name: "content_encoding", label: "Content encoding", hint: "such as gzip" },
  { name: "priority", label: "Priority", hint: "0 to 255", most: 255 },
  { name: "expiration", label: "Expiration", hint: "the time to live in milliseconds" },
  { name: "message_id", label: "Message id" },
  { name: "correlation_id", label: "Correlation id" },
  { name: "reply_to", label: "Reply to" },
  { name: "timestamp", label: "Timestamp", hint: "seconds since 1970", most: Number.MAX_SAFE_INTEGER },
  { name: "type", label: "Type" },
  { name: "user_id", label: "User id", hint: "your own name, or empty" },
  { name: "app_id", label: "App id" },
  { name: "cluster_id", label: "Cluster id" },
];

export const Publish = fresh(({ vhost, exchange, routingKey }: { vhost: string; exchange: string; routingKey: string }): JSX.Element => {
  const [key, setKey] = useState(routingKey);
  const [body, setBody] = useState("");
  const [encoding, setEncoding] = useState("string");
  const [headers, setHeaders] = useState("");
  const [type, setType] = useState("");
  const [more, setMore] = useState<Record<string, string>>({});
  const [durable, setDurable] = useState(true);
  const set = PROPERTIES.filter(({ name }) => more[name]);
  const options: [string, string][] = [...inVhost(vhost), ["--key", key]];
  if (!durable) options.push(["--durable", "false"]);
  if (type) options.push(["--property", `content_type=${type}`]);
  for (const { name } of set) options.push(["--property", `${name}=${more[name] ?? ""}`]);
  const given = typedPairs(headers);
  // For the body `-`, the command would read the standard input. It has no option for Base64.
  const hasCommand = given !== undefined && body !== "-" && encoding === "string";
  return (
    <Action
      label="Publish"
      title={exchange === "" ? `Publish to ${routingKey}` : `Publish to the exchange ${exchange}`}
      confirm="Publish"
      command={hasCommand ? command(["publish"], [...options, ...toOptions("--header", given)], [exchangeInPath(exchange), body]) : undefined}
      run={async () => {
        const others = Object.fromEntries(set.map(({ name, most }) => [name, most === undefined ? more[name] : Number(more[name])]));
        const table = toObject(pairs(headers));
        const properties = { delivery_mode: durable ? 2 : 1, ...(Object.keys(table).length > 0 ? { headers: table } : {}), ...(type ? { content_type: type } : {}), ...others };
        const answer = await request("POST", path("exchanges", vhost, exchangeInPath(exchange), "publish"), { body: { properties, routing_key: key, payload: body, payload_encoding: encoding } });
        const routed = typeof answer === "object" && answer !== null && (answer as { routed?: unknown }).routed === true;
        return routed ? "Published and routed." : "Published, but no queue takes it.";
      }}
    >
      {exchange !== "" && <Text label="Routing key" value={key} set={setKey} />}
      <Area label="Body" value={body} set={setBody} rows={6} />
      <Select label="Sent as" value={encoding} set={setEncoding} options={[["string", "text"], ["base64", "octets in Base64"]]} />
      <Text label="Content type" value={type} set={setType} placeholder="application/json" />
      <Area label="Headers" value={headers} set={setHeaders} rows={2} hint="One name=value a line" />
      <Check label="Durable: it survives a restart" value={durable} set={setDurable} />
      <details>
        <summary>More properties{set.length > 0 && ` (${set.length})`}</summary>
        <div class="properties">
          {PROPERTIES.map(({ name, label, hint, most }) => (
            <Text label={label} value={more[name] ?? ""} set={(value) => setMore({ ...more, [name]: value })} {...(hint ? { hint } : {})} {...(most !== undefined || name === "expiration" ? { pattern: "[0-9]+" } : {})} />
          ))}
        </div>
      </details>
    </Action>
  );
});
