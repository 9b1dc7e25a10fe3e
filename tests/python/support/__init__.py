# SPDX-License-Identifier: Apache-2.0
"""What the Python tests share: checkpoints made on the spot, references, random options."""
