# SPDX-License-Identifier: Apache-2.0
"""The `isobit` command: one sub-command a file, and what they share about errors and exit codes.

Exit codes: 0 done, 1 the answer is no (doctor, demo, info), 2 an error, 130 interrupted, 141 output closed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import isobit
from isobit.cli import bench, convert, demo, doctor, generate, info

_COMMANDS = (generate, info, convert, bench, doctor, demo)
# What a user can cause: bad files or arguments, a missing extra, too little memory. Anything else is a bug
# and shows its traceback.
_EXPECTED = (ValueError, TypeError, OSError, NotImplementedError, ImportError, MemoryError)


class _Parser(argparse.ArgumentParser):
    """argparse with errors of one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"isobit: error: {message} (see {self.prog} --help)\n")


def _parser() -> _Parser:
    about = "Decoder language models with the same bits on every machine."
    parser = _Parser(prog="isobit", description=about)
    version = f"isobit {isobit.version()} (arithmetic contract {isobit.contract_version()})"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in _COMMANDS:
        command = commands.add_parser(module.NAME, help=module.HELP, description=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    try:
        arguments = _parser().parse_args(argv)
        with _cleanup_on_termination():
            code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse: --help, --version, bad arguments
        return stop.code if isinstance(stop.code, int) else 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Python flushes stdout once more when it ends, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except _EXPECTED as error:
        print(f"isobit: error: {_one_line(error)}", file=sys.stderr)
        return 2


@contextmanager
def _cleanup_on_termination() -> Iterator[None]:
    """SIGTERM ends the command like an exception, so that half-made directories are removed."""

    def stop(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _one_line(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    return " ".join(text.split())
