# SPDX-License-Identifier: Apache-2.0
"""`python -m isobit` is the `isobit` command."""

import sys

from isobit.cli import main

sys.exit(main())
