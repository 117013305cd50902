"""Draws docs/benchmarks.svg, the picture of README.md, from the results of bench/run."""
import os

import tables

# Each row is a workload, and what it is in words.
GROUPS = (
    ("Full speed, AMQP 1.0", (
        ("a", "one pair, classic queue"), ("a4", "four pairs, classic queues"), ("c", "one pair, stream"),
        ("b", "one pair, quorum queue"))),
    ("Full speed, AMQP 0.9.1", (
        ("l", "one pair, classic queue"), ("m", "one pair, quorum queue"), ("l4", "four pairs, classic queues"))),
    ("Light traffic, AMQP 1.0", (
        ("p", "16 pairs, 1,000/s each"), ("j", "one pair, 5,000/s"), ("j-quorum", "one pair, 5,000/s, quorum queue"))),
    ("Light traffic, AMQP 0.9.1", (
        ("q", "16 pairs, 1,000/s each"), ("q-quorum", "16 pairs, 1,000/s each, quorum queues"))),
)
WIDTH, LABELS, ROW, HEAD = 760, 290, 19, 26
STYLE = """text { font: 13px system-ui, sans-serif; fill: #24292f } .head { font-weight: 600 } .note { fill: #57606a }
.bar { fill: #0969da } .one { stroke: #8c959f; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .note { fill: #9198a1 } .bar { fill: #4493f8 } }"""


def ratio(results, key):
    found = [tables.median(results, target, key, "broker_cpu_s_per_million") for target in (tables.PEER, tables.OURS)]
    return None if None in found else found[0] / found[1]


def words(value):
    return f"{value:.0f}x" if value >= 10 else f"{value:.1f}x"


def write(root, results):
    """Writes the picture. A workload that was not measured has no row."""
    found = {key: ratio(results, key) for _, rows in GROUPS for key, _ in rows}
    most = max(value for value in found.values() if value)
    scale = (WIDTH - LABELS - 50) / most
    lines, y = [], 22

    def text(x, content, kind="", extra=""):
        lines.append(f'<text x="{x}" y="{y}"{kind and f" class={chr(34)}{kind}{chr(34)}"}{extra}>{content}</text>')

    text(0, "CPU per message: RabbitMQ 4.3 divided by Sluice. A longer bar is better.", "head")
    top = y + 10
    for head, rows in GROUPS:
        y += HEAD
        text(0, head, "head")
        for key, label in rows:
            if found[key] is None:
                continue
            y += ROW
            text(12, label)
            lines.append(f'<rect x="{LABELS}" y="{y - 11}" width="{found[key] * scale:.0f}" height="13" class="bar"/>')
            text(LABELS + round(found[key] * scale) + 6, words(found[key]), extra=f' data-workload="{key}"')
    one = LABELS + round(scale)
    lines.append(f'<line x1="{one}" y1="{top}" x2="{one}" y2="{y + 8}" class="one"/>')
    y += HEAD
    text(LABELS, "The dashed line is 1x: as much CPU as RabbitMQ.", "note")
    with open(os.path.join(root, "docs/benchmarks.svg"), "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 10}" width="{WIDTH}" role="img"'
                f' aria-label="CPU per message of RabbitMQ 4.3 divided by that of Sluice">\n<style>\n{STYLE}\n</style>\n')
        f.write("\n".join(lines) + "\n</svg>\n")
