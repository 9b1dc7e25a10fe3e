#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the C++ tests of a build folder in one process and closes with one line of counts.

Usage: tools/run_cpp_tests.py FOLDER [argument of isobit_tests]...
EMULATOR in the environment is put before the program (a cross build).
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path


def main() -> int:
    folder = Path(sys.argv[1])
    report = folder / "tests.json"
    report.unlink(missing_ok=True)
    emulator = shlex.split(os.environ.get("EMULATOR", ""))
    options = ["--gtest_brief=1", f"--gtest_output=json:{report.resolve()}", *sys.argv[2:]]
    run = subprocess.run([*emulator, folder / "tests" / "isobit_tests", *options], check=False)
    if not report.exists():
        print(f"{folder}: isobit_tests ended with {run.returncode} before its report")
        return 1
    cases = [case for suite in json.loads(report.read_text())["testsuites"] for case in suite["testsuite"]]
    skipped = sum(case["result"] == "SKIPPED" for case in cases)
    failed = sum("failures" in case for case in cases)
    passed = sum(case["result"] == "COMPLETED" for case in cases) - failed
    print(f"{folder}:\n{passed} passed, {failed} failed, {skipped} skipped")
    return run.returncode or (passed == 0)


if __name__ == "__main__":
    sys.exit(main())
