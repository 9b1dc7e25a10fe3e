# SPDX-License-Identifier: Apache-2.0
"""llama.cpp through its own llama-bench, whose path is in LLAMA_BENCH.

Usage: llamacpp_engine.py MODEL.gguf THREADS ROW ...
"""

import json
import os
import subprocess
import sys

from workload import REPEATS, ROWS

model, threads, *rows = sys.argv[1:]
results = {}
for name in rows:
    kind, length, tokens = ROWS[name]
    work = (
        ["-p", str(length), "-n", "0"]
        if kind == "prefill"
        else ["-p", "0", "-n", str(tokens), "-d", str(length)]
    )
    command = [os.environ["LLAMA_BENCH"], "-m", model, "-t", threads, "-r", str(REPEATS), "-o", "json", *work]
    (row,) = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    results[name] = row["avg_ts"]
json.dump(results, sys.stdout)
