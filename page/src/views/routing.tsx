/** "Where would a message go?", computed from the bindings. Nothing is published. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, exchangeInPath, path, request, toApiError } from "../lib/api";
import type { BindingRow, ExchangeRow } from "../lib/names";
import { pairs, toObject } from "../lib/pairs";
import { change, href, place } from "../lib/place";
import { type Lookup, type Result, route } from "../lib/routing";
import { plural } from "../lib/text";
import { vhost as chosenVhost } from "../lib/vhost";
import { Area, Empty, Name, NameLink, Panel, Problem, Text } from "../ui/parts";
import { NameField, VhostField } from "../ui/picker";
import { exchangeTitle } from "./exchanges";

/** Asks the broker for what a message meets on its way, and for nothing else. */
function lookup(vhost: string): Lookup {
  const missing = <T,>(error: unknown, instead: T): T => {
    if (error instanceof ApiError && error.status === 404) return instead;
    throw error;
  };
  return {
    exchange: async (name) => {
      try {
        const row = (await request("GET", path("exchanges", vhost, exchangeInPath(name)))) as ExchangeRow;
        const alternate = row.arguments?.["alternate-exchange"] ?? (row.policy ? await ofPolicy(vhost, row.policy) : undefined);
        return { name, type: row.type, ...(typeof alternate === "string" ? { alternate } : {}) };
      } catch (error) {
        return missing(error, undefined);
      }
    },
    bindings: async (source) => (await request("GET", path("exchanges", vhost, source, "bindings", "source"))) as BindingRow[],
    hasQueue: async (name) => {
      if (name === "") return false;
      try {
        await request("GET", `${path("queues", vhost, name)}?columns=name&disable_stats=true`);
        return true;
      } catch (error) {
        return missing(error, false);
      }
    },
  };
}

async function ofPolicy(vhost: string, policy: string): Promise<unknown> {
  const row = (await request("GET", path("policies", vhost, policy))) as { definition?: Record<string, unknown> };
  return row.definition?.["alternate-exchange"];
}

export function Routing(): JSX.Element {
  const { query } = place.use();
  const [vhost, setVhost] = useState(query["vhost"] ?? (chosenVhost.get() || "/"));
  const [exchange, setExchange] = useState(query["exchange"] ?? "");
  const [key, setKey] = useState(query["key"] ?? "");
  const [headers, setHeaders] = useState(query["headers"] ?? "");
  const [result, setResult] = useState<Result>();
  const [error, setError] = useState<ApiError>();
  // The number of the newest question. A late answer to an older one is not shown.
  const newest = useRef(0);
  const ask = async () => {
    newest.current += 1;
    const question = newest.current;
    setError(undefined);
    setResult(undefined);
    const start = exchange === "amq.default" ? "" : exchange;
    try {
      const found = await route(start, { key, headers: toObject(pairs(headers)) }, lookup(vhost));
      if (question === newest.current) setResult(found);
    } catch (caught) {
      if (question === newest.current) setError(toApiError(caught));
    }
  };
  useEffect(() => {
    if (query["key"] !== undefined || query["headers"] !== undefined) void ask();
  }, []);
  return (
    <>
      <h1>Where would a message go?</h1>
      <Panel title="The message">
        <form
          class="inline"
          onSubmit={(event) => {
            event.preventDefault();
            change({ vhost, exchange, key, headers });
            void ask();
          }}
        >
          <VhostField value={vhost} set={setVhost} />
          <NameField kind="exchange" vhost={vhost} label="Exchange" value={exchange} set={setExchange} hint="Empty for the default exchange" />
          <Text label="Routing key" value={key} set={setKey} />
          <Area label="Headers" value={headers} set={setHeaders} rows={2} hint="One name=value a line" />
          <button type="submit" class="primary">Try</button>
        </form>
        <p class="hint">Nothing is published. The answer is computed from the bindings as they are now.</p>
      </Panel>
      {error && <Problem error={error} />}
      {result && (
        <Panel title="The way" aside={<b role="status">{result.queues.length === 0 && result.possible.length === 0 ? "No queue gets it" : `${plural(result.queues.length, "queue")}${result.possible.length > 0 ? ` and one or more of ${result.possible.length}` : ""}`}</b>}>
          {result.problems.map((problem) => <p class="problem"><Name text={problem} /></p>)}
          {result.steps.length === 0 ? (
            <Empty title="The message goes nowhere.">It is dropped, or returned to a publisher that asks for that.</Empty>
          ) : (
            <ol class="steps">
              {result.steps.map((step) => (
                <li class={step.maybe ? "maybe" : undefined}>
                  <NameLink to={href(["exchanges", vhost, exchangeInPath(step.exchange)])} text={exchangeTitle(step.exchange)} />
                  <span aria-hidden="true"> → </span><span class="hidden">to the</span> {step.toType}{" "}
                  <NameLink to={href([step.toType === "queue" ? "queues" : "exchanges", vhost, step.toType === "queue" ? step.to : exchangeInPath(step.to)])} text={step.to} />
                  <span class="hint"> {step.maybe ? "possibly: " : ""}<Name text={step.why} /></span>
                </li>
              ))}
            </ol>
          )}
        </Panel>
      )}
    </>
  );
}
