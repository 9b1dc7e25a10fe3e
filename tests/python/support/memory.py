# SPDX-License-Identifier: Apache-2.0
"""How much memory loading a model takes, in a process of its own."""

import json
import subprocess
import sys

PROGRAM = """
import json, sys, isobit
from isobit.models import CausalLM
def memory():
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return [int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "VmHWM", "VmRSS")]
isobit.set_num_threads(1)
before, _, start = memory()
model = CausalLM.load(sys.argv[1], **json.loads(sys.argv[2]))
model.generate([[1, 2, 3]], 2)  # after which no weight is left in its file
after, peak, _ = memory()
print(json.dumps([after - before, peak - start, model.weight_bytes]))
"""


def of_load(folder, **options):
    """(bytes that stay, bytes at the peak, file pages included, the model's weight_bytes)."""
    command = [sys.executable, "-c", PROGRAM, str(folder), json.dumps(options)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
