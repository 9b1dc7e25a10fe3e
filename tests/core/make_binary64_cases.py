# SPDX-License-Identifier: Apache-2.0
"""Writes binary64_cases.h: arguments and correctly rounded results (mpmath) for binary64_test.cc.

usage: python make_binary64_cases.py > binary64_cases.h
"""

import random

from mpmath import cos, exp, log, mp, mpf, power, sin

mp.prec = 2400


def rows(name, cases):
    print(f"constexpr Case {name}[] = {{")
    for x, y, result in cases:
        print(f"    {{{x.hex()}, {y.hex()}, {float(result).hex()}}},")
    print("};\n")


def main():
    rng = random.Random(20240501)
    print("// SPDX-License-Identifier: Apache-2.0")
    print("// Written by make_binary64_cases.py: x, y, the correctly rounded result (y only for pow).")
    print("#pragma once\n")
    print("// clang-format off")
    print("namespace isobit::binary64_cases {\n")
    print("struct Case {\n  double x;\n  double y;\n  double result;\n};\n")
    xs = [0.0, 1.0, -1.0, 2.0**-60, 0.5, -0.34657359027997264, 0.34657359027997270, 709.0, -708.0]
    xs += [rng.uniform(-700, 700) for _ in range(16)] + [rng.uniform(-1, 1) for _ in range(8)]
    rows("kExp", [(x, 0.0, exp(mpf(x))) for x in xs])
    xs = [1.0, 2.0, 10000.0, 500000.0, 0.5, 1.5, 5e-324, 2.0**-1040, 1.7976931348623157e308]
    xs += [1.0 + 2.0**-52, 1.0 - 2.0**-53, 1.4142135623730951, 1.4142135623730949]
    xs += [rng.uniform(0.6, 1.7) for _ in range(8)] + [2.0 ** rng.uniform(-1000, 1000) for _ in range(8)]
    rows("kLog", [(x, 0.0, log(mpf(x))) for x in xs])
    pairs = [
        (10000.0, 0.5),
        (500000.0, 0.984375),
        (1e6, 0.75),
        (2.0, 0.5),
        (7.0, 0.0),
        (1.0, 3.0),
        (3.0, -5.0),
    ]
    pairs += [(rng.uniform(1, 1e7), rng.uniform(0, 1)) for _ in range(16)]
    pairs += [(2.0 ** rng.uniform(-500, 500), rng.uniform(-2, 2)) for _ in range(12)]
    rows("kPow", [(x, y, power(mpf(x), mpf(y))) for x, y in pairs])
    xs = [
        1.0,
        0.7853981633974483,
        0.7853981633974484,
        1.5707963267948966,
        3.141592653589793,
        2.0**-40,
        131071.0,
    ]
    xs += [8191.0, 2.0**31, 6381956970095103.0 * 2.0**797, 1.7976931348623157e308, 3.4028234663852886e38]
    xs += [rng.uniform(0, 20) for _ in range(8)] + [2.0 ** rng.uniform(5, 1000) for _ in range(12)]
    xs = [-x if i % 3 == 2 else x for i, x in enumerate(xs)]
    rows("kSin", [(x, 0.0, sin(mpf(x))) for x in xs])
    rows("kCos", [(x, 0.0, cos(mpf(x))) for x in xs])
    print("}  // namespace isobit::binary64_cases")


main()
