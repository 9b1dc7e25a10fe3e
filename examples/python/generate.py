#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a checkpoint directory, continues token ids greedily and prints ids and a digest over the logits.

Usage: generate.py FOLDER NEW_TOKENS ID [ID]...
"""

import hashlib
import sys

from isobit.models import CausalLM


def main(folder: str, new_tokens: int, prompt: list[int]) -> None:
    model = CausalLM.load(folder)
    state = model.allocate_state(1, len(prompt) + new_tokens)
    digest = hashlib.sha256()

    logits = model.forward([prompt], state)[0][len(prompt) - 1]
    for _ in range(new_tokens):
        digest.update(logits.tobytes())
        token = int(logits.argmax())
        print(token, end=" ", flush=True)
        logits = model.step([token], state)[0]
    print(f"\ndigest {digest.hexdigest()}")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    try:
        count, *ids = map(int, sys.argv[2:])
        main(sys.argv[1], count, ids)
    except (ValueError, OSError, MemoryError) as error:
        sys.exit(f"generate.py: {error}")
