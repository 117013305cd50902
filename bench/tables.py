"""Makes the tables of docs/benchmarks.md from the results of bench/run."""
import os
import re
import statistics
import tomllib

NOT_YET = "not measured yet"
OURS, PEER, FLOOR, RELAY, NONE = "sluice", "rabbitmq-4.3", "floor", "relay", "none"
MARK = " (disturbed)"


def write(root, titles, results, parts):
    """Replaces the text between the marks. `titles` are those of the workloads that targets
    share. A part has its own place, its results, and a function that makes its tables."""
    path = os.path.join(root, "docs/benchmarks.md")
    with open(path) as f:
        text = f.read()
    peers = {name: data for name, data in results.items() if name not in parts}
    makers = {"setting": lambda: setting(peers), "goals": lambda: goals(results),
              "messages": lambda: messages(titles, peers), "connections": lambda: connections(titles, peers),
              "failed": lambda: failed(results), "steps": lambda: steps(root)}
    for name, page in parts.items():
        makers[name] = lambda name=name, page=page: part(results, name, page)
    for name, make in makers.items():
        marks = rf"(<!-- bench/run: {name} -->\n).*?(<!-- end -->)"
        text, n = re.subn(marks, lambda m: m.group(1) + "\n" + make() + "\n" + m.group(2), text, flags=re.S)
        if n != 1:
            raise SystemExit(f"bench/run: docs/benchmarks.md has {n} places for {name}")
    with open(path, "w") as f:
        f.write(text)


# ---- figures ---------------------------------------------------------------

def good_runs(results, target, key):
    runs = results[target]["workloads"].get(key, {}).get("runs", [])
    return [r for r in runs if "error" not in r and r.get("complete") is not False]


def disturbance(run, quiet_cores, quiet_host_cores):
    """Returns the load by others and by the host, relative to the limit for a quiet machine.
    Above 1, the run is disturbed. If there is no limit for the host, its load does not count."""
    others, stolen = (run.get(name, float("inf")) for name in ("other_cores", "stolen_cores"))
    return max(others / quiet_cores, 0 if quiet_host_cores is None else stolen / quiet_host_cores)


def is_disturbed(run, machine):
    return disturbance(run, machine["quiet_cores"], machine.get("quiet_host_cores")) > 1


def last_good(*where):
    runs = good_runs(*where)
    return runs[-1] if runs else None


def values(results, target, key, *path):
    found = []
    for value in good_runs(results, target, key):
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if value is not None:
            found.append(value)
    return found


def median(*where):
    found = values(*where)
    return statistics.median(found) if found else None


def number(v):
    digits = 0 if abs(v) >= 100 or v == int(v) else 1 if abs(v) >= 10 else 2
    return f"{v:,.{digits}f}"


def cell(*where):
    """The median, and the range if values differ."""
    found = values(*where)
    if not found:
        return "-"
    spread = f" [{number(min(found))}-{number(max(found))}]" if min(found) != max(found) else ""
    return number(statistics.median(found)) + spread


def load(results, target, key):
    """The highest load by others in any counted run, and the highest by the host where that
    counts."""
    found = values(results, target, key, "other_cores")
    if not found:
        return "-"
    machine = results[target]["workloads"][key]["machine"]
    most = [max(found)]
    if machine.get("quiet_host_cores") is not None:
        most.append(max(values(results, target, key, "stolen_cores")))
    mark = MARK if any(is_disturbed(run, machine) for run in good_runs(results, target, key)) else ""
    return ", host ".join(map(number, most)) + mark


def table(header, rows):
    if not rows:
        return NOT_YET.capitalize() + ".\n"
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


# ---- the parts -------------------------------------------------------------

def setting(results):
    """The machines, commits and commands of all results. There are several if workloads were
    measured separately."""
    seen = {}
    for data in results.values():
        for key, workload in data["workloads"].items():
            # The number of existing runs: a command may have been interrupted.
            m, runs = workload["machine"], len(workload["runs"])
            line = (f"{m['date']}, commit {m['commit']}, {m['rustc']}; {m['cpu']}, {m['cores']} cores, "
                    f"{m['memory_gib']} GiB, Linux {m['kernel']}; {runs} {'run' if runs == 1 else 'runs each'}, "
                    f"`{m['command']}`")
            if m["scale"] != 1:
                line += f"; **scale {m['scale']}: this shows that the command works, not how fast anything is**"
            seen.setdefault(line, set()).add(key)
    if not seen:
        return NOT_YET.capitalize() + ".\n"
    who = lambda keys: f"{', '.join(sorted(keys))}: " if len(seen) > 1 else ""  # noqa: E731
    text = "".join(f"- {who(keys)}{line}\n" for line, keys in seen.items())
    # Some programs say more about themselves in further lines.
    versions = [f"{data['name']}: {data['version'].splitlines()[0]}" for data in results.values() if data.get("version")]
    return text + f"- versions: {'; '.join(versions)}\n"


def part(results, name, page):
    """Returns the tables of a part, after its own setting."""
    if not results[name]["workloads"]:
        return NOT_YET.capitalize() + ".\n"
    return setting({name: results[name]}) + "\n" + page(results)


def goals(results):
    cpu = "broker_cpu_s_per_million"

    def of(key, *path, target=OURS):
        return median(results, target, key, *path)

    def at_least(work, what, value, goal, unit=""):
        return row(work, f"{what} at least {number(goal)}{unit}", value, unit, lambda v: v >= goal, lambda v: goal / v)

    def at_most(work, what, value, goal, unit=""):
        return row(work, f"{what} at most {number(goal)}{unit}", value, unit, lambda v: v <= goal, lambda v: v / goal)

    def under(work, what, value, goal, unit):
        return row(work, f"{what} under {number(goal)}{unit}", value, unit, lambda v: v < goal, lambda v: v / goal)

    def row(work, goal, value, unit, met, behind):
        if value is None:
            return [work, goal, NOT_YET, "-"]
        verdict = "met" if met(value) else f"behind by {number(behind(value))}x" if value else "behind"
        return [work, goal, number(value) + unit, verdict]

    def ratio(a, b):
        return a / b if a and b else None

    def peer(key):
        return ratio(of(key, cpu, target=PEER), of(key, cpu))

    def direct(p):
        return ratio(of("j", "latency_ms", p), of("j", "latency_ms", p, target=NONE))

    def quiet(p, goal):
        """The goal for the runs that nothing disturbed, if there are any."""
        runs = good_runs(results, OURS, "j")
        still = [r for r in runs if not is_disturbed(r, results[OURS]["workloads"]["j"]["machine"])]
        us = statistics.median([r["latency_ms"][p] * 1e3 for r in still]) if still else None
        return at_most("j", f"{p} (quiet machine: {len(still)} of {len(runs)} runs)", us, goal, " us")

    def no_goal(key, name, target):
        value = ratio(of(key, cpu, target=target), of(key, cpu))
        return [key, f"{name}'s CPU per message over ours", NOT_YET if value is None else number(value) + "x", "no goal"]

    def unconfirmed():
        """The rate of publishers without confirms, over that of a publisher with confirms."""
        return ratio(of("l-unconfirmed", "rate"), of("l", "rate"))

    rows = [
        at_least("a", "RabbitMQ's CPU per message over ours", peer("a"), 30, "x"),
        at_most("a", "our CPU over the floor's", ratio(of("a", cpu), of("a", cpu, target=FLOOR)), 2, "x"),
        at_least("c", "RabbitMQ's CPU per message over ours", peer("c"), 50, "x"),
        at_least("d", "RabbitMQ's CPU per message over ours", peer("d"), 50, "x"),
        at_least("b", "RabbitMQ's CPU per message over ours", peer("b"), 40, "x"),
        at_most("b", "our CPU over that of a stream with x-fsync", ratio(of("b", cpu), of("c-fsync", cpu)), 1.4, "x"),
        at_most("h-1k", "CPU per million", of("h-1k", cpu), 3.2, " s"),
        at_most("h-64k", "our CPU over the relay's", ratio(of("h-64k", cpu), of("h-64k", cpu, target=RELAY)), 2.5, "x"),
        at_most("h-64k-transient", "our CPU over the relay's",
                ratio(of("h-64k-transient", cpu), of("h-64k-transient", cpu, target=RELAY)), 1.5, "x"),
        at_most("j", "p50 over that without a broker", direct("p50"), 2, "x"),
        at_most("j", "p99 over that without a broker", direct("p99"), 2, "x"),
        quiet("p50", 150),
        quiet("p99", 500),
        at_least("j", "RabbitMQ's CPU per message over ours", peer("j"), 6.5, "x"),
        at_least("j-quorum", "RabbitMQ's CPU per message over ours", peer("j-quorum"), 3.2, "x"),
        at_most("j-quorum", "p50", of("j-quorum", "latency_ms", "p50"), 0.35, " ms"),
        at_most("l", "CPU per million", of("l", cpu), 0.7, " s"),
        at_least("l", "RabbitMQ's CPU per message over ours", peer("l"), 50, "x"),
        at_least("m", "RabbitMQ's CPU per message over ours", peer("m"), 40, "x"),
        at_least("l4", "RabbitMQ's CPU per message over ours", peer("l4"), 10, "x"),
        at_least("l4", "messages per second", of("l4", "rate"), 100_000),
        at_least("q", "RabbitMQ's CPU per message over ours", peer("q"), 3.5, "x"),
        at_least("q-quorum", "RabbitMQ's CPU per message over ours", peer("q-quorum"), 2.5, "x"),
        at_least("p", "RabbitMQ's CPU per message over ours", peer("p"), 4, "x"),
        at_most("l-unconfirmed", "CPU per million", of("l-unconfirmed", cpu), 0.7, " s"),
        at_least("l-unconfirmed", "rate over that of l", unconfirmed(), 1.5, "x"),
        under("e-091", "memory per connection", of("e-091", "kib_per_connection"), 4, " KiB"),
        under("e", "memory per connection", of("e", "kib_per_connection"), 10, " KiB"),
        at_least("e", "connections opened per second", of("e", "opened_per_s"), 1000),
        under("idle", "CPU of a core", of("idle", "idle_percent_of_a_core"), 1.5, " %"),
        under("idle-silent", "CPU of a core", of("idle-silent", "idle_percent_of_a_core"), 0.1, " %"),
        under("empty", "exec to listening", of("empty", "exec_to_listening_ms"), 100, " ms"),
        under("empty", "memory", of("empty", "empty_rss_mib"), 10, " MiB"),
        under("definitions", "memory of an idle queue", median(results, "definitions", "definitions.direct", "idle queue",
                                                               "bytes_each"), 2048, " B"),
        under("definitions", "the metrics of 10,000 queues", median(results, "definitions", "definitions.scrape", "median_ms"),
              300, " ms"),
        *(no_goal(key, name, target) for key, name, target in (
            ("a", "RabbitMQ 4.0", "rabbitmq-4.0"), ("c", "RabbitMQ 4.0", "rabbitmq-4.0"), ("a", "Artemis", "artemis"),
            ("h-1k", "Artemis", "artemis"))),
    ]
    return table(["work", "goal", "found", "verdict"], rows)


def messages(titles, results):
    rows = []
    for key, title in titles.items():
        for target, data in results.items():
            if not values(results, target, key, "rate"):
                continue
            latency = " / ".join(cell(results, target, key, "latency_ms", p).split(" [")[0]
                                 for p in ("p50", "p99", "p999", "max"))
            client = " + ".join(cell(results, target, key, f"{side}cpu_s_per_million").split(" [")[0]
                                for side in (("client_",) if values(results, target, key, "client_cpu_s_per_million")
                                             else ("sender_", "receiver_")))
            rows.append([f"{key}: {title}", data["name"], cell(results, target, key, "received").split(" [")[0],
                         cell(results, target, key, "broker_cpu_s_per_million"), cell(results, target, key, "rate"),
                         latency, cell(results, target, key, "broker_peak_rss_mib"), client,
                         load(results, target, key)])
    return table(["workload", "target", "messages", "CPU s per million", "msg/s", "latency ms p50 / p99 / p99.9 / max",
                  "peak RSS MiB", "client CPU s per million", "other load, cores"], rows)


def connections(titles, results):
    rows = []
    for key, title in titles.items():
        for target, data in results.items():
            if not good_runs(results, target, key) or values(results, target, key, "rate"):
                continue
            where = (results, target, key)
            rows.append([f"{key}: {title}", data["name"],
                         *(cell(*where, figure) for figure in
                           ("kib_per_connection", "opened_per_s", "broker_cpu_ms_per_connection",
                            "idle_percent_of_a_core", "exec_to_listening_ms", "empty_rss_mib")),
                         load(*where)])
    return table(["workload", "target", "KiB per connection", "opened per s", "CPU ms per connection",
                  "idle CPU, % of a core", "exec to listening, ms", "empty RSS, MiB", "other load, cores"], rows)


def failed(results):
    lines = []
    for data in results.values():
        for key, workload in data["workloads"].items():
            for r in workload["runs"]:
                lines += [f"- {data['name']}, {key}: {error}; then tried again\n" for error in r.get("failed_tries", [])]
                if "error" in r:
                    lines.append(f"- {data['name']}, {key}: {r['error']}\n")
                elif r.get("complete") is False:
                    lines.append(f"- {data['name']}, {key}: incomplete: {r['sent']} sent, {r['accepted']} accepted, "
                                 f"{r['received']} received\n")
    return "".join(dict.fromkeys(lines)) or "Nothing.\n"


def steps(root):
    with open(os.path.join(root, "bench/micro/table.toml"), "rb") as f:
        kept = tomllib.load(f)
    compiler = kept.pop("rustc")
    rows = [[name, *(number(row[f]) for f in ("instructions", "allocations", "bytes")), row.get("reason", "")]
            for name, row in kept.items()]
    return f"rustc {compiler}.\n\n" + table(["step", "instructions", "allocations", "bytes", "why it rose"], rows)
