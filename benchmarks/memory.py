# SPDX-License-Identifier: Apache-2.0
"""What a loaded model takes: bytes of its weights, memory that stays, and the peak while it loads.

    python benchmarks/memory.py CHECKPOINT [--profiles fp32_v1 ...] [--formats float32 ...] [--threads N]

Every row is a process of its own that imports isobit, loads the checkpoint and generates two tokens, after
which all weights are in the form that stays. What stays is its anonymous memory then (RssAnon), Python's
included; the peak is all that was resident at once, pages of the file included (VmHWM). Linux only.
"""

import argparse
import json
import subprocess
import sys

import isobit

PROGRAM = """
import json, sys, isobit
from isobit.models import CausalLM
path, threads, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
isobit.set_num_threads(threads)
model = CausalLM.load(path, **options)
model.generate([[1, 2, 3]], 2)
with open("/proc/self/status") as status:
    fields = dict(line.split(":", 1) for line in status)
stays, peak = (int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "VmHWM"))
print(json.dumps([model.weight_bytes, stays, peak]))
"""


def measure(path, threads, **options):
    command = [sys.executable, "-c", PROGRAM, path, str(threads), json.dumps(options)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--profiles", nargs="+", default=isobit.numeric_profiles())
    parser.add_argument("--formats", nargs="+", default=isobit.lowbit.FORMATS)
    parser.add_argument("--threads", type=int, default=isobit.num_threads())
    arguments = parser.parse_args()
    print("| weights | embedding | profile | weights, MB | stays, MB | peak, MB |")
    print("|---|---|---|---|---|---|")
    for profile in arguments.profiles:
        for fmt in arguments.formats:
            for table in ("float32", "bfloat16"):
                options = {"weight_format": fmt, "embed_format": table, "numeric_profile": profile}
                sizes = measure(arguments.checkpoint, arguments.threads, **options)
                cells = " | ".join(f"{size / 1e6:.0f}" for size in sizes)
                print(f"| {fmt} | {table} | `{profile}` | {cells} |", flush=True)


if __name__ == "__main__":
    main()
