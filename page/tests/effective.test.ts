import { describe, expect, it } from "vitest";
import { rejects, settings } from "../src/lib/effective";

const shown = (args: Record<string, unknown>, policy: Record<string, unknown> = {}, type = "quorum") =>
  settings({ name: "q", vhost: "/", type, arguments: args, effective_policy_definition: policy }).map((one) => `${one.short} ${one.value}`);

describe("the settings of a queue", () => {
  it("come from its arguments and policies, and the smaller number counts", () => {
    expect(shown({ "x-message-ttl": 60_000, "x-max-length": 100 }, { "message-ttl": 1, "max-length": 5000 })).toEqual(["TTL 1 ms", "max 100"]);
    expect(shown({}, { "max-length-bytes": 1_000_000 })).toEqual(["max 1 MB (977 KiB)"]);
    expect(shown({}, { "max-length-bytes": 2048, overflow: "reject-publish" })).toEqual(["max 2 KiB", "full reject-publish"]);
  });

  it("take texts from the argument first", () => {
    expect(shown({ "x-dead-letter-exchange": "" }, { "dead-letter-exchange": "other", "dead-letter-routing-key": "dead" })).toEqual(["DLX (default)", " dead"]);
  });

  it("are merged as the broker merges them", () => {
    expect(shown({ "x-overflow": "drop-head" }, { overflow: "reject-publish" })).toEqual(["full reject-publish"]);
    expect(shown({ "x-overflow": "drop-head" }, { overflow: "reject-publish-dlx" })).toEqual(["full drop-head"]);
    for (const [own, policy] of [[-1, 5], [5, -1], [5, 7]]) expect(shown({ "x-delivery-limit": own }, { "delivery-limit": policy })).toEqual(["tries 5"]);
    for (const [own, policy] of [["7D", "30m"], ["30m", "7D"]]) expect(shown({ "x-max-age": own }, { "max-age": policy }, "stream")).toEqual(["age 30m"]);
  });

  it("are those that the type has", () => {
    const policy = { "max-length": 9, "max-length-bytes": 1024, "max-age": "7D", "delivery-limit": 3 };
    expect(shown({}, policy, "stream")).toEqual(["max 1 KiB", "age 7D"]);
    expect(shown({}, policy, "classic")).toEqual(["max 9", "max 1 KiB"]);
  });

  it("say whether the queue refuses messages", () => {
    const refuses = (type: string, own?: string, policy?: string) =>
      rejects({ name: "q", vhost: "/", type, arguments: own === undefined ? {} : { "x-overflow": own }, effective_policy_definition: policy === undefined ? {} : { overflow: policy } });
    expect(refuses("classic") || refuses("quorum", "drop-head") || refuses("quorum", "reject-publish-dlx") || refuses("stream", "reject-publish")).toBe(false);
    expect(refuses("quorum", "reject-publish") && refuses("classic", undefined, "reject-publish-dlx") && refuses("classic", "drop-head", "reject-publish")).toBe(true);
  });

  it("are none for a plain queue", () => {
    expect(shown({ "x-queue-type": "classic", "x-note": 7 })).toEqual([]);
    expect(shown({ "x-delivery-limit": -1, "x-single-active-consumer": true })).toEqual(["tries no limit", "SAC yes"]);
  });
});
