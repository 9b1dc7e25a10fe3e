# SPDX-License-Identifier: Apache-2.0
"""Plots of what the benchmarks wrote, as PNG beside it.

    python benchmarks/plot.py FOLDER ...

A folder with compare.json gets ratios.png, prompts.png and batches.png; one with kernels.json, roofline.png.
"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from kernels_table import OURS, products
from report import ROWS, median, peers_of, ratio

COLOURS = {OURS: "#c03020", "llamacpp": "#7070c0", "openvino": "#30a080", "transformers": "#b0a030"}


def threads_of(figures):
    return sorted({f["threads"] for f in figures})


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(path)


def plot_ratios(content, path):
    """One bar a row: how many times as fast as the fastest peer; its target as a mark."""
    about, figures = content["about"], content["figures"]
    names = [name for name, row in ROWS.items() if row.target is not None and not row.less_is_better]
    figure, axes = plt.subplots(figsize=(8, 4.5))
    counts = threads_of(figures)
    height = 0.8 / len(counts)
    for i, threads in enumerate(counts):
        values = [ratio(figures, threads, name) or 0 for name in names]
        places = [y + (i - (len(counts) - 1) / 2) * height for y in range(len(names))]
        axes.barh(places, values, height * 0.9, color=plt.cm.Reds(0.8 - 0.3 * i), label=f"{threads} threads")
    for y, name in enumerate(names):
        axes.plot([ROWS[name].target] * 2, [y - 0.45, y + 0.45], color="black")
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("times as fast as the fastest peer (black: target)")
    axes.set_title(f"{about['model']}, {about['cpu']}" + (f", {about['isa']}" if about["isa"] else ""))
    axes.legend(loc="lower right")
    save(figure, path)


def plot_rates(content, names, size, label, path):
    """Tokens per second of every engine over `size` of the named rows."""
    about, figures = content["about"], content["figures"]
    counts = threads_of(figures)
    figure, panes = plt.subplots(1, len(counts), figsize=(4.5 * len(counts), 3.8), squeeze=False)
    for axes, threads in zip(panes[0], counts, strict=True):
        for engine in (OURS, *peers_of(figures)):
            found = [(size(ROWS[name]), median(figures, engine, threads, name)) for name in names]
            points = [(x, y) for x, y in found if y is not None]
            if points:
                axes.plot(*zip(*points, strict=True), "o-", color=COLOURS.get(engine), label=engine)
        axes.set(xscale="log", xlabel=label, ylabel="tokens/s", title=f"{about['model']}, {threads} threads")
        axes.set_xticks([size(ROWS[name]) for name in names], [str(size(ROWS[name])) for name in names])
        axes.set_ylim(bottom=0)
        axes.minorticks_off()
        axes.legend()
    save(figure, path)


def plot_roofline(file, path):
    """Every matrix product at its operations per byte of weights, below what memory and arithmetic allow."""
    rows = products(file)
    any_row = next(of[OURS] for of in rows.values() if OURS in of)
    peak = any_row["GFLOP/s"] / any_row["of_fma_peak"]
    bandwidth = any_row["GB/s"] / any_row["of_read_rate"]
    figure, axes = plt.subplots(figsize=(7, 4.5))
    intensities = [2.0**i / 4 for i in range(13)]
    axes.plot(intensities, [min(peak, bandwidth * x) for x in intensities], color="black", label="roofline")
    libraries = [OURS, *sorted({library for of in rows.values() for library in of} - {OURS})]
    for library, marker in zip(libraries, "o^sv", strict=False):
        points = [
            (m / 2 * (1 + 0.06 * libraries.index(library)), of[library]["GFLOP/s"])
            for (_, _, m), of in rows.items()
            if library in of
        ]
        axes.scatter(*zip(*points, strict=True), s=18, marker=marker, label=library, alpha=0.7)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="floating-point operations per byte of weights (M / 2)",
        ylabel="GFLOP/s, one thread",
        title="Matrix products of three models' layers (above the slope: weights in a cache)",
    )
    axes.legend()
    save(figure, path)


def main():
    prompts = [name for name, row in ROWS.items() if row.kind == "prefill"]
    batches = [name for name, row in ROWS.items() if row.kind == "decode" and row.length == 32]
    for folder in map(pathlib.Path, sys.argv[1:]):
        if (folder / "compare.json").exists():
            content = json.loads((folder / "compare.json").read_text())
            plot_ratios(content, folder / "ratios.png")
            plot_rates(content, prompts, lambda row: row.length, "prompt tokens", folder / "prompts.png")
            plot_rates(content, batches, lambda row: row.batch, "rows at once", folder / "batches.png")
        if (folder / "kernels.json").exists():
            plot_roofline(folder / "kernels.json", folder / "roofline.png")


if __name__ == "__main__":
    main()
