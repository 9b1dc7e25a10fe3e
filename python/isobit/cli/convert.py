# SPDX-License-Identifier: Apache-2.0
"""Turns a GGUF file into a Hugging Face checkpoint directory with weights, tokenizer and chat template."""

from __future__ import annotations

import argparse

from isobit.cli.common import ProgressBar, visible

NAME = "convert"
HELP = "turn a GGUF file into a checkpoint directory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("gguf", metavar="MODEL.gguf", help="source file")
    parser.add_argument("out", metavar="OUT", help="directory to make")
    parser.add_argument(
        "--keep-quantized",
        action="store_true",
        help="keep Q8_0, Q4_0 and Q4_1 matrices as they are, for --numeric-profile int8x32_v1",
    )
    parser.add_argument("--force", action="store_true", help="replace OUT when it is complete")


def run(arguments: argparse.Namespace) -> int:
    from isobit.gguf import convert  # noqa: PLC0415 (needs an extra)

    with ProgressBar("converting") as progress:
        out = convert(
            arguments.gguf,
            arguments.out,
            force=arguments.force,
            keep_quantized=arguments.keep_quantized,
            progress=progress,
        )
    print(visible(str(out)))
    return 0
