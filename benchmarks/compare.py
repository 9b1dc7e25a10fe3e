# SPDX-License-Identifier: Apache-2.0
"""isobit beside other engines: same machine, same weights, rows interleaved, ratios of medians.

    python benchmarks/compare.py PEERS --out FOLDER [--model smollm2-135m] [--isa avx2] [--threads 1 2]
        [--rounds 3] [--rows "prefill 512" "decode after 32" ...] [--engines isobit openvino ...]

PEERS is the folder that benchmarks/peers.sh makes. Every figure comes from a process of its own and goes to
compare.json and compare.md in --out at once; what fails is written down as such and the rest goes on. Run
again with the same --out, it measures what is missing. --isa avx2 holds everybody to AVX2.
"""

import argparse
import itertools
import json
import os
import pathlib
import platform
import subprocess
import sys
from dataclasses import dataclass

from report import OURS, ROWS, report

ENGINES = pathlib.Path(__file__).parent / "engines"
HIDDEN = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # would hold a current library to old kernels
AVX2 = {  # how each engine is held to it; llama.cpp is built for it
    "ISOBIT_ISA": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
}


@dataclass(frozen=True)
class Engine:
    name: str
    python: pathlib.Path
    model: pathlib.Path


def engines(peers, model, isa):
    """Each with its interpreter and its form of the model, in the order of the table."""
    models = peers / "models" / model
    llamacpp = "llamacpp-avx2" if isa == "avx2" else "llamacpp"
    return [
        Engine(OURS, pathlib.Path(sys.executable), models / "checkpoint"),
        Engine("llamacpp", peers / llamacpp / "bin/python", models / "f32.gguf"),
        Engine("openvino", peers / "openvino/bin/python", models / "openvino"),
        Engine("transformers", peers / "transformers/bin/python", models / "checkpoint"),
    ]


def measure(engine, work, isa, timeout):
    """One figure from a process of its own: what it prints, or {"error": why there is none}."""
    if missing := next((path for path in (engine.python, engine.model) if not path.exists()), None):
        why = missing.with_name(missing.name + ".error")  # left by peers.sh
        return {"error": why.read_text().strip() if why.exists() else f"{missing.name} is missing"}
    environment = {k: v for k, v in os.environ.items() if k not in HIDDEN} | (AVX2 if isa == "avx2" else {})
    command = [engine.python, ENGINES / f"{engine.name}_engine.py", engine.model, *work]
    try:
        run = subprocess.run(
            [str(part) for part in command],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {timeout} s"}
    if run.returncode != 0:
        last = [line for line in run.stderr.splitlines() if line.strip()][-1:]
        return {"error": f"exit code {run.returncode}: {''.join(last)[:300]}"}
    return json.loads(run.stdout.splitlines()[-1])


class Record:
    """What was measured; on disk after every figure."""

    def __init__(self, folder, about):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.about, self.figures = folder, about, []
        file = folder / "compare.json"
        if file.exists():
            before = json.loads(file.read_text())
            if before["about"] != about:
                raise SystemExit(f"compare.py: {folder} holds figures of {before['about']}")
            self.figures = [f for f in before["figures"] if "error" not in f]

    def has(self, **key):
        return any(key.items() <= figure.items() for figure in self.figures)

    def failed(self, **key):
        return any("error" in f and key.items() <= f.items() for f in self.figures)

    def add(self, figure):
        self.figures.append(figure)
        content = {"about": self.about, "figures": self.figures}
        for name, text in (("json", json.dumps(content, indent=1) + "\n"), ("md", report(**content))):
            (self.folder / f"compare.{name}").write_text(text)


def applies(engine, row, round_index, threads, all_threads):
    """The machine's rates are isobit's to measure; what is computed need be compared only once."""
    kind = ROWS[row].kind
    if kind == "machine":
        return engine == OURS
    return kind != "same" or (round_index == 0 and threads == all_threads[0])


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peers", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--model", default="smollm2-135m", help="a folder of PEERS/models")
    parser.add_argument("--isa", choices=["avx2"])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--engines", nargs="+", help="default: all")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one figure")
    args = parser.parse_args()

    chosen = engines(args.peers.absolute(), args.model, args.isa)
    vocabulary = json.loads((chosen[0].model / "config.json").read_text())["vocab_size"]
    about = {"model": args.model, "cpu": cpu_model(), "cpus": os.cpu_count(), "isa": args.isa}
    record = Record(args.out, about)
    for index, threads, row, engine in itertools.product(range(args.rounds), args.threads, args.rows, chosen):
        key = {"engine": engine.name, "threads": threads, "row": row}
        if args.engines and engine.name not in args.engines:
            continue
        if not applies(engine.name, row, index, threads, args.threads):
            continue
        if record.has(round=index, **key) or record.failed(**key):
            continue
        result = measure(engine, (threads, vocabulary, row), args.isa, args.timeout)
        record.add(key | {"round": index} | result)
        said = ", ".join(f"{k} {v}" for k, v in result.items() if k not in ("ids", "logits"))
        print(f"{index + 1}/{args.rounds}: {engine.name}, {threads} threads, {row}: {said}", file=sys.stderr)
    print(report(record.about, record.figures))


if __name__ == "__main__":
    main()
