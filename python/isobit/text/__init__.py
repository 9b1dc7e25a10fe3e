# SPDX-License-Identifier: Apache-2.0
"""Text in and text out: tokenizers and chat templates.

Needs the `text` extra (`pip install 'isobit[text]'`).
"""

from isobit.text.tokenizer import Tokenizer, TokenStream

__all__ = ["TokenStream", "Tokenizer"]
