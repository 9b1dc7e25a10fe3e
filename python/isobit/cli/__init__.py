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
from contextlib import contextmanager, suppress
from typing import NoReturn

import isobit
from isobit.cli import bench, convert, demo, doctor, generate, info
from isobit.cli.common import visible

_COMMANDS = (generate, info, convert, bench, doctor, demo)
# What a user can cause: bad files or arguments, a missing extra. Anything else is named with its type.
_EXPECTED = (ValueError, TypeError, OSError, NotImplementedError, ImportError)
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class _Parser(argparse.ArgumentParser):
    """argparse with errors of one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"isobit: error: {visible(message)} (see {self.prog} --help)\n")


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
        if sys.stdout is None:
            raise ValueError("standard output: expected an open one, got a closed one")
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
        _drop_output()
        return 141
    except BaseException as error:  # also what extensions derive from BaseException, as Rust's panics
        _report(error)
        return 2


def _report(error: BaseException) -> None:
    """One line on stderr, where there is one."""
    with suppress(OSError):
        if sys.stderr is not None:
            print(f"isobit: error: {_one_line(error)}", file=sys.stderr)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _drop_output()


def _drop_output() -> None:
    """Python flushes stdout once more when it ends, which must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _cleanup_on_termination() -> Iterator[None]:
    """SIGTERM and SIGHUP end the command like an exception, so that half-made directories are removed."""

    def stop(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # One that is ignored, as under nohup, stays so.
    previous = {n: handler for n in _SIGNALS if (handler := signal.getsignal(n)) != signal.SIG_IGN}
    for number in previous:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _one_line(error: BaseException) -> str:
    text = str(error) if isinstance(error, _EXPECTED) else f"{type(error).__name__}: {error}"
    text = text.strip(" :") or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    return visible(" ".join(text.split()))
