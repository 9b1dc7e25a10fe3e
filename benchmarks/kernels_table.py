# SPDX-License-Identifier: Apache-2.0
"""The matrix products of the kernel benchmark as a Markdown table: isobit beside each library.

    isobit_kernels_bench --benchmark_out=kernels.json; python benchmarks/kernels_table.py kernels.json

A figure of several repetitions is their median.
"""

import json
import math
import pathlib
import statistics
import sys

OURS = "isobit"


def products(file):
    """{(N, K, M): {library: {counter: value}}}"""
    runs = {}
    for run in json.loads(pathlib.Path(file).read_text())["benchmarks"]:
        library, *sizes = run["name"].split("/")[:4]
        if run.get("run_type") == "aggregate" or not sizes or not sizes[0].startswith("N:"):
            continue
        shape = tuple(int(size.split(":")[1]) for size in sizes)
        runs.setdefault(shape, {}).setdefault(library, []).append(run)
    counters = ("GFLOP/s", "GB/s", "of_fma_peak", "of_read_rate")
    return {
        shape: {
            library: {c: statistics.median(run[c] for run in of) for c in counters}
            for library, of in libraries.items()
        }
        for shape, libraries in runs.items()
    }


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def ratios(rows, library, wanted):
    return [
        of[OURS]["GFLOP/s"] / of[library]["GFLOP/s"]
        for (_, _, m), of in rows.items()
        if wanted(m) and OURS in of and library in of
    ]


def table(rows):
    libraries = sorted({library for of in rows.values() for library in of} - {OURS})
    columns = ["N x K", "M", f"{OURS} GFLOP/s", "of peak", "GB/s", "of read rate"]
    columns += [name for library in libraries for name in (library, "ratio")]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for (n, k, m), of in sorted(rows.items(), key=lambda row: (row[0][0] * row[0][1], row[0])):
        mine = of.get(OURS)
        if mine is None:
            continue
        cells = [f"{n} x {k}", m, f"{mine['GFLOP/s']:.1f}", f"{mine['of_fma_peak']:.2f}"]
        cells += [f"{mine['GB/s']:.1f}", f"{mine['of_read_rate']:.2f}"]
        for library in libraries:
            theirs = of.get(library, {}).get("GFLOP/s")
            cells += [f"{theirs:.1f}", f"**{mine['GFLOP/s'] / theirs:.2f}**"] if theirs else ["-", ""]
        yield "| " + " | ".join(map(str, cells)) + " |"
    yield ""
    for title, wanted in (("M <= 16", lambda m: m <= 16), ("M >= 128", lambda m: m >= 128)):
        for library in libraries:
            if found := ratios(rows, library, wanted):
                yield (
                    f"- {title}, beside {library}: geometric mean {geometric_mean(found):.2f}, "
                    f"least {min(found):.2f}."
                )


if __name__ == "__main__":
    print("\n".join(table(products(sys.argv[1]))))
