# SPDX-License-Identifier: Apache-2.0
"""Refusals: the type of the exception and the parts of its message."""

from contextlib import contextmanager

import pytest


@contextmanager
def refuses(error, *parts):
    """`error` itself, not a subclass, with every part in its message."""
    with pytest.raises(error) as caught:
        yield
    assert caught.type is error, f"{caught.type.__name__}: {caught.value}"
    for part in parts:
        assert part in str(caught.value), f"{part!r} is not in {str(caught.value)!r}"
