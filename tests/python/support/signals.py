# SPDX-License-Identifier: Apache-2.0
"""A program that is sent a signal in the middle of its work."""

import subprocess
import sys


def signalled(code, number, while_waiting=lambda: None):
    """Runs Python code that prints "started" and then waits; its exit code and what it wrote to stderr."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "started\n"
    while_waiting()
    process.send_signal(number)
    err = process.communicate(timeout=60)[1]
    return process.returncode, err


def slow_conversion(source, target):
    """Code that converts a GGUF file and waits where the weights would be written."""
    return (
        "import sys, time, isobit.gguf.conversion as g, isobit.cli as c\n"
        "def slow(*a, **k): print('started', flush=True); time.sleep(60)\n"
        "g.write_tensors = slow\n"
        f"sys.exit(c.main(['convert', {str(source)!r}, {str(target)!r}]))"
    )
