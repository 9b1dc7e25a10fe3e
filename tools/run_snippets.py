#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every fenced python, bash and cpp block of the given Markdown files, in order; checks relative links.

The blocks run in a scratch folder with a link `models` to the repository's; a `bash repository` block runs in
the repository. The python blocks of a file share
one namespace. A cpp block is a whole program, linked with build/release/libisobit.a. A block after a comment
`<!-- not run: REASON -->` is listed instead.

Usage: tools/run_snippets.py FILE...
"""

import os
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>.*?) -->\s*)?"
    r"^```(?P<language>\w+)(?P<place> repository)?\n(?P<code>.*?)^```$",
    re.M | re.S,
)
LINK = re.compile(r"\]\((?!https?:)(?P<target>[^)#]+)")
LANGUAGES = ("python", "bash", "cpp")


def run_bash(code: str, folder: Path) -> None:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-eo", "pipefail", "-c", code], check=True, env=environment, cwd=folder)


def run_cpp(code: str) -> None:
    Path("snippet.cc").write_text(code)
    library = ROOT / "build" / "release" / "libisobit.a"
    include = f"-I{ROOT / 'include'}"
    subprocess.run(
        ["g++", "-std=c++20", include, "snippet.cc", library, "-pthread", "-o", "snippet"], check=True
    )
    subprocess.run(["./snippet"], check=True)


def run_file(path: Path) -> tuple[int, int]:
    """Returns how many blocks and links were tried and how many failed."""
    text = path.read_text()
    namespace: dict[str, object] = {"__name__": "__main__"}
    ran = failed = 0
    for link in LINK.finditer(text):
        ran += 1
        if not (path.parent / link["target"]).exists():
            print(f"{path.relative_to(ROOT)}: no such file: {link['target']}", flush=True)
            failed += 1
    for block in BLOCK.finditer(text):
        language, code = block["language"], block["code"]
        if language not in LANGUAGES:
            continue
        line = text.count("\n", 0, block.start("code")) + 1
        where = f"{path.relative_to(ROOT)}:{line}"
        if block["reason"]:
            print(f"{where}: {language}, not run: {block['reason']}", flush=True)
            continue
        print(f"{where}: {language}", flush=True)
        ran += 1
        try:
            if language == "python":
                exec(compile("\n" * (line - 1) + code, str(path), "exec"), namespace)
            elif language == "bash":
                run_bash(code, ROOT if block["place"] else Path())
            else:
                run_cpp(code)
        except (Exception, SystemExit):
            traceback.print_exc()
            failed += 1
    return ran, failed


def main() -> int:
    files = [Path(name).resolve() for name in sys.argv[1:]]
    ran = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        Path("models").symlink_to(ROOT / "models")
        for path in files:
            counts = run_file(path)
            ran, failed = ran + counts[0], failed + counts[1]
    print(f"documentation:\n{ran - failed} passed, {failed} failed")
    return failed > 0 or ran == 0


if __name__ == "__main__":
    sys.exit(main())
