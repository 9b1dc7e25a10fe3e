# SPDX-License-Identifier: Apache-2.0
"""The Markdown table of what compare.py measured. Run on its compare.json, it prints the table again."""

import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "engines"))
from workload import ROWS

OURS = "isobit"
NOTE = (
    "Medians (spread), tokens per second unless the row says otherwise. Ratio: to the fastest peer; of time "
    "and memory, where less is better, to llama.cpp. Share: of the machine's multiply-add rate (prefill) or "
    "memory read rate (decode, one row), as measured in the same rounds."
)
RATES = {"gflop_per_second": "GFLOP/s", "bandwidth_gb_per_second": "GB/s"}
TOLERANCE = {
    "llamacpp": 1e-2
}  # of logits, beside the largest; llama.cpp keeps keys and values in half precision


def found(figures, engine, threads, row, field="value"):
    key = (engine, threads, row)
    return [f[field] for f in figures if (f["engine"], f["threads"], f["row"]) == key and field in f]


def median(figures, engine, threads, row, field="value"):
    """None where nothing was measured."""
    values = found(figures, engine, threads, row, field)
    return statistics.median(values) if values else None


def peers_of(figures):
    return list(dict.fromkeys(f["engine"] for f in figures if f["engine"] != OURS))


def ratio(figures, threads, name):
    """isobit to the fastest peer, or to llama.cpp where less is better. None where either has no figure."""
    less = ROWS[name].less_is_better
    rivals = ["llamacpp"] if less else peers_of(figures)
    theirs = [m for peer in rivals if (m := median(figures, peer, threads, name)) is not None]
    mine = median(figures, OURS, threads, name)
    return mine / max(theirs) if mine is not None and theirs else None


def share(figures, threads, name):
    """The part of the machine's rate that isobit uses, or None where neither rate is the limit."""
    row = ROWS[name]
    field = {"prefill": "gflop_per_second", "decode": "bandwidth_gb_per_second"}.get(row.kind)
    used = median(figures, OURS, threads, name, field)
    most = median(figures, OURS, threads, "machine", field)
    return used / most if used and most and row.batch == 1 else None


def cell(values):
    if not values:
        return "-"
    middle = statistics.median(values)
    return f"{middle:.4g} ({100 * (max(values) - min(values)) / middle:.0f} %)"


def table(figures):
    peers = peers_of(figures)
    yield f"| threads | work | {' | '.join([OURS, *peers])} | ratio | target | share |"
    yield "|---|---|" + "---|" * (len(peers) + 4)
    for threads in sorted({f["threads"] for f in figures}):
        for name, row in ROWS.items():
            if row.target is None or not any((f["row"], f["threads"]) == (name, threads) for f in figures):
                continue
            cells = [cell(found(figures, engine, threads, name)) for engine in (OURS, *peers)]
            unit = "" if row.unit == "tokens/s" else f" ({row.unit})"
            reached, part = ratio(figures, threads, name), share(figures, threads, name)
            cells += [
                "" if reached is None else f"**{reached:.2f}**",
                f"{'at most' if row.less_is_better else 'at least'} {row.target}",
                "" if part is None else f"{part:.2f}",
            ]
            yield f"| {threads} | {name}{unit} | {' | '.join(cells)} |"


def scaling(figures):
    for threads in sorted({f["threads"] for f in figures}):
        rates = [
            f"{cell(values)} {unit}"
            for field, unit in RATES.items()
            if (values := found(figures, OURS, threads, "machine", field))
        ]
        if rates:
            yield f"- The machine at most, {threads} threads: {', '.join(rates)}."
    for name, row in ROWS.items():
        one, two = (median(figures, OURS, threads, name) for threads in (1, 2))
        if row.kind == "prefill" and one and two:
            yield f"- isobit, {name}: 2 threads are {two / one:.2f} times as fast as one."


def sameness(figures):
    """Whether the peers computed what isobit computed: greedy tokens, and logits where they can be had."""
    answers = {f["engine"]: f for f in figures if "ids" in f}
    mine = answers.pop(OURS, None)
    for peer, theirs in answers.items() if mine else ():
        pairs = list(zip(mine["ids"], theirs["ids"], strict=True))
        equal = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
        text = f"- {peer} chooses the same {equal} of {len(pairs)} greedy tokens"
        if theirs["logits"]:
            tolerance = TOLERANCE.get(peer, 1e-4)
            both = zip(mine["logits"], theirs["logits"], strict=True)
            off = max(abs(a - b) for a, b in both) / max(map(abs, mine["logits"]))
            text += f"; its logits differ by at most {off:.0e} of the largest: "
            text += f"{'within' if off <= tolerance else 'BEYOND'} {tolerance}"
        yield text + "."


def failures(figures):
    rows = {}
    for f in figures:
        if "error" in f:
            rows.setdefault((f["engine"], f["error"]), []).append(f"{f['row']} ({f['threads']})")
    for (engine, error), where in rows.items():
        yield f"- No figure of {engine} for {'; '.join(where)}: {error}"


def report(about, figures):
    held = f", everybody held to {about['isa']}" if about["isa"] else ""
    head = f"{about['model']} on {about['cpu']}, {about['cpus']} CPUs{held}. {NOTE}"
    notes = [*scaling(figures), *sameness(figures), *failures(figures)]
    return "\n".join([head, "", *table(figures), "", *notes]) + "\n"


if __name__ == "__main__":
    print(report(**json.loads(pathlib.Path(sys.argv[1]).read_text())), end="")
