# SPDX-License-Identifier: Apache-2.0
"""One decoder block beside torch: `step` after 1,024 tokens, eager and compiled, and what a call costs.

    PYTHONPATH=... python benchmarks/block.py --out FOLDER [--threads 1 2] [--rounds 5]

Runs in an environment that has torch and isobit. The block: d 1024, 16 heads, 4 key/value heads, ff 2816.
torch gets its best form: fused projections, a cache in place, and a group's heads as rows of one product, so
that keys are not repeated. Rounds are interleaved; what does not agree is not timed.
"""

import argparse
import json
import pathlib
import statistics
import time

import numpy as np
import torch
from torch.nn import functional

import isobit

D, HEADS, KV_HEADS, HEAD_DIM, FF = 1024, 16, 4, 64, 2816
BEFORE, STEPS, WARM = 1024, 64, 8
ROOM = 4096
NAMES = ("isobit", "torch eager", "torch.compile")
TINY = {
    "input_layernorm.weight": (8,),
    "post_attention_layernorm.weight": (8,),
    "q_proj.weight": (8, 8),
    "k_proj.weight": (8, 8),
    "v_proj.weight": (8, 8),
    "o_proj.weight": (8, 8),
    "gate_proj.weight": (8, 8),
    "up_proj.weight": (8, 8),
    "down_proj.weight": (8, 8),
}
TOLERANCE = 1e-4  # of an output, beside the largest


def random_weights():
    rng = np.random.default_rng(0)
    kv = KV_HEADS * HEAD_DIM
    shapes = {
        "q_proj": (D, D),
        "k_proj": (kv, D),
        "v_proj": (kv, D),
        "o_proj": (D, D),
        "gate_proj": (FF, D),
        "up_proj": (FF, D),
        "down_proj": (D, FF),
    }
    weights = {
        f"{name}.weight": rng.standard_normal(shape, np.float32) / np.float32(shape[1] ** 0.5)
        for name, shape in shapes.items()
    }
    for name in ("input_layernorm", "post_attention_layernorm"):
        weights[f"{name}.weight"] = 1 + rng.standard_normal(D, np.float32) / 10
    return weights


class TorchBlock(torch.nn.Module):
    """One token at a time, float32."""

    def __init__(self, weights, eps, theta):
        super().__init__()
        w = {name.removesuffix(".weight"): torch.from_numpy(value) for name, value in weights.items()}
        self.qkv = torch.cat([w["q_proj"], w["k_proj"], w["v_proj"]])
        self.gate_up = torch.cat([w["gate_proj"], w["up_proj"]])
        self.out, self.down = w["o_proj"], w["down_proj"]
        self.norm1, self.norm2 = w["input_layernorm"], w["post_attention_layernorm"]
        self.eps = eps
        angles = torch.outer(
            torch.arange(ROOM), theta ** (-torch.arange(0, HEAD_DIM, 2, dtype=torch.float64) / HEAD_DIM)
        )
        self.cos, self.sin = angles.cos().float(), angles.sin().float()
        self.keys = torch.zeros(1, KV_HEADS, ROOM, HEAD_DIM)
        self.values = torch.zeros(1, KV_HEADS, ROOM, HEAD_DIM)

    def rotated(self, x, position):
        cos, sin = self.cos[position], self.sin[position]
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def fill(self, x):
        """The cache of the first tokens, at once."""
        h = functional.linear(functional.rms_norm(x, (D,), self.norm1, self.eps), self.qkv)
        k, v = h[..., D:].view(-1, 2, KV_HEADS, HEAD_DIM).permute(1, 2, 0, 3)
        length = x.shape[1]
        self.keys[0, :, :length] = self.rotated(k, slice(length))
        self.values[0, :, :length] = v

    def forward(self, x, position: int):
        h = functional.linear(functional.rms_norm(x, (D,), self.norm1, self.eps), self.qkv)
        q, k, v = h.split([D, KV_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM], -1)
        q = self.rotated(q.view(1, KV_HEADS, HEADS // KV_HEADS, HEAD_DIM), position)
        k = self.rotated(k.view(1, KV_HEADS, 1, HEAD_DIM), position)
        self.keys[:, :, position : position + 1] = k
        self.values[:, :, position : position + 1] = v.view(1, KV_HEADS, 1, HEAD_DIM)
        seen = position + 1
        h = functional.scaled_dot_product_attention(q, self.keys[:, :, :seen], self.values[:, :, :seen])
        x = x + functional.linear(h.reshape(1, 1, D), self.out)
        gate, up = functional.linear(functional.rms_norm(x, (D,), self.norm2, self.eps), self.gate_up).chunk(
            2, -1
        )
        return x + functional.linear(functional.silu(gate) * up, self.down)


def timed(step, tokens):
    times = []
    for token in tokens:
        begin = time.perf_counter()
        step(token)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[WARM:])


class Isobit:
    def __init__(self, block):
        self.block = block

    def run(self, x):
        """Outputs of the tokens after the first BEFORE, and the time of a step."""
        state = self.block.allocate_state(batch_size=1, max_tokens=ROOM)
        self.block.forward(x[:, :BEFORE], state)
        outputs = []
        with self.block.decode_session(state) as session:
            tokens = [np.ascontiguousarray(x[:, t : t + 1]) for t in range(BEFORE, x.shape[1])]
            seconds = timed(lambda token: outputs.append(session.step(token)), tokens)
        return np.concatenate([np.asarray(y) for y in outputs], 1), seconds


class Torch:
    def __init__(self, block, step):
        self.block, self.step = block, step

    def run(self, x):
        x = torch.from_numpy(x)
        with torch.inference_mode():
            self.block.fill(x[:, :BEFORE])
            outputs = []
            seconds = timed(
                lambda position: outputs.append(self.step(x[:, position : position + 1], position)),
                range(BEFORE, x.shape[1]),
            )
            return torch.cat(outputs, 1).numpy(), seconds


def agree(ours, theirs):
    off = float(np.abs(ours - theirs).max() / np.abs(ours).max())
    if not off <= TOLERANCE:
        raise ValueError(f"it computes something else, off by {off:.1e} of the largest output")
    return off


def microseconds_of_a_call():
    """A step of a block so small that the call is what takes the time."""
    weights = {name: np.full(shape, 0.5, np.float32) for name, shape in TINY.items()}
    block = isobit.TransformerBlock(weights, n_heads=1)
    state = block.allocate_state(batch_size=1, max_tokens=ROOM)
    x = np.ones((1, 1, 8), np.float32)
    with block.decode_session(state) as session:
        times = []
        for _ in range(2000):
            begin = time.perf_counter()
            session.step(x)
            times.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(times)


def text(figures):
    lines = [
        f"One block (d {D}, {HEADS} heads, {KV_HEADS} key/value heads, ff {FF}), a step after {BEFORE} "
        "tokens: microseconds, median (spread) over the rounds.",
        "",
        "| threads | " + " | ".join(NAMES) + " | eager / isobit | compile / isobit | target |",
        "|---" * 7 + "|",
    ]
    for threads, by_name in figures["microseconds"].items():
        middle = {name: statistics.median(v) for name, v in by_name.items() if v}
        cells = [
            f"{middle[n]:.0f} ({100 * (max(by_name[n]) - min(by_name[n])) / middle[n]:.0f} %)"
            if n in middle
            else "-"
            for n in NAMES
        ]
        cells += [f"**{middle[n] / middle['isobit']:.2f}**" if n in middle else "-" for n in NAMES[1:]]
        lines.append(f"| {threads} | {' | '.join(cells)} | at least 2 |")
    lines += [
        "",
        *(
            f"- A step of a block of 8 channels takes {took:.1f} microseconds from Python, {threads} threads."
            for threads, took in figures["call"].items()
        ),
    ]
    lines += [f"- {note}" for note in figures["notes"]]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()

    weights = random_weights()
    block = isobit.TransformerBlock(weights, n_heads=HEADS, n_kv_heads=KV_HEADS)
    eager = TorchBlock(weights, block.norm_eps, block.rope_theta)
    runners = {
        "isobit": Isobit(block),
        "torch eager": Torch(eager, eager),
        "torch.compile": Torch(eager, torch.compile(eager)),
    }
    x = np.random.default_rng(1).standard_normal((1, BEFORE + STEPS, D), np.float32)
    ours, _ = runners["isobit"].run(x)
    notes = []
    for name in NAMES[1:]:
        try:
            off = agree(ours, runners[name].run(x)[0])
            notes.append(f"Outputs of {name} are off by at most {off:.0e} of the largest.")
        except Exception as error:  # a compiler that does not work here is a result, too
            notes.append(f"No figure of {name}: {str(error).strip().splitlines()[0][:300]}")
            del runners[name]

    figures = {"microseconds": {}, "call": {}, "notes": notes}
    args.out.mkdir(parents=True, exist_ok=True)
    for threads in args.threads:
        isobit.set_num_threads(threads)
        torch.set_num_threads(threads)
        figures["call"][threads] = microseconds_of_a_call()
        of = figures["microseconds"][threads] = {name: [] for name in NAMES}
        for _ in range(args.rounds):
            for name, runner in runners.items():
                of[name].append(1e6 * runner.run(x)[1])
            (args.out / "block.json").write_text(json.dumps(figures, indent=1) + "\n")
            (args.out / "block.md").write_text(text(figures))
    print(text(figures))


if __name__ == "__main__":
    main()
