// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "core/checked.h"
#include "core/fp_env.h"
#include "isobit/linalg.h"
#include "kernels/table.h"
#include "ops/linear.h"

namespace isobit {

void matmul(const float* a, int64_t m, const float* b, int64_t n, int64_t k, float* out) {
  constexpr const char* kWho = "linalg.matmul";
  const FpEnv environment;
  expect(m >= 0 && n >= 0 && k >= 0, kWho, "shapes", "no negative extent",
         std::to_string(m) + ", " + std::to_string(n) + ", " + std::to_string(k));
  if (m == 0 || n == 0) return;
  if (k == 0) {
    std::fill_n(out, m * n, 0.0f);
    return;
  }
  expect(kernels::active_table().first_nonfinite(a, m * k) == m * k, kWho, "a", "finite values",
         "NaN or infinity");
  const TensorView view{DType::F32, {n, k}, reinterpret_cast<const std::byte*>(b)};
  const std::string name = "b";
  const PackedMatrix packed = ops::pack({&view, 1}, {&name, 1}, kWho);
  expect(ops::linear(a, k, m, packed, nullptr, out, n), kWho, "result", "finite values", "an overflow");
}

}  // namespace isobit
