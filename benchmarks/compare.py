# SPDX-License-Identifier: Apache-2.0
"""isobit beside other engines: same machine, same weights, runs interleaved, ratios of medians.

    python benchmarks/compare.py CHECKPOINT --out build/compare [--threads 1 2] [--rounds 3]
        [--transformers PYTHON] [--openvino PYTHON EXPORTED] [--llamacpp LLAMA_BENCH MODEL.gguf]

PYTHON is an interpreter of an environment made from benchmarks/requirements-*.txt; benchmarks/peers.sh makes
them all. Writes compare.md and compare.json into --out. A figure is the median over the rounds; the spread is
(max - min) / median.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "engines"))
from workload import ROWS  # noqa: E402


class Engine:
    """A peer, or isobit: a command that prints row -> tokens per second."""

    def __init__(self, name, python, model, **environment):
        self.name = name
        self.command = [python, str(HERE / "engines" / f"{name.replace('.', '')}_engine.py"), model]
        self.environment = environment
        self.figures = {}

    def measure(self, threads, rows):
        hidden = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # would hold a current library to old kernels
        environment = {k: v for k, v in os.environ.items() if k not in hidden} | self.environment
        command = [*self.command, str(threads), *rows]
        run = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        if run.returncode != 0:
            raise SystemExit(f"{self.name} failed:\n{run.stderr[-2000:]}")
        for row, rate in json.loads(run.stdout.splitlines()[-1]).items():
            self.figures.setdefault((threads, row), []).append(rate)


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def table(engines, threads, rows):
    ours, *peers = engines
    lines = [
        f"Machine: {cpu_model()}, {os.cpu_count()} CPUs.",
        "Tokens per second, median (spread); ratio to the fastest peer.",
        "",
        "| threads | work | " + " | ".join(e.name for e in engines) + " | ratio |",
        "|---|---|" + "---|" * (len(engines) + 1),
    ]
    for count in threads:
        for row in rows:
            cells = []
            for engine in engines:
                values = engine.figures[count, row]
                middle = statistics.median(values)
                cells.append(f"{middle:.1f} ({100 * (max(values) - min(values)) / middle:.0f} %)")
            best = max((statistics.median(p.figures[count, row]) for p in peers), default=None)
            mine = statistics.median(ours.figures[count, row])
            ratio = "" if best is None else f"**{mine / best:.2f}**"
            lines.append(f"| {count} | {row} | " + " | ".join(cells) + f" | {ratio} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--transformers", metavar="PYTHON")
    parser.add_argument("--openvino", nargs=2, metavar=("PYTHON", "EXPORTED"))
    parser.add_argument("--llamacpp", nargs=2, metavar=("LLAMA_BENCH", "MODEL"))
    args = parser.parse_args()

    engines = [Engine("isobit", sys.executable, args.checkpoint)]
    if args.llamacpp:
        engines.append(Engine("llama.cpp", sys.executable, args.llamacpp[1], LLAMA_BENCH=args.llamacpp[0]))
    if args.openvino:
        engines.append(Engine("openvino", *args.openvino))
    if args.transformers:
        engines.append(Engine("transformers", args.transformers, args.checkpoint))
    for round_index in range(args.rounds):
        for threads in args.threads:
            for engine in engines:
                print(
                    f"round {round_index + 1}/{args.rounds}, {threads} threads, {engine.name}",
                    file=sys.stderr,
                )
                engine.measure(threads, args.rows)

    args.out.mkdir(parents=True, exist_ok=True)
    text = table(engines, args.threads, args.rows)
    (args.out / "compare.md").write_text(text)
    raw = {e.name: {f"{t} threads, {row}": values for (t, row), values in e.figures.items()} for e in engines}
    (args.out / "compare.json").write_text(json.dumps({"cpu": cpu_model(), "figures": raw}, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
