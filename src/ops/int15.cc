// SPDX-License-Identifier: Apache-2.0
// Rows of 15-bit codes as users see them, and their products.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backends/cpu/thread_pool.h"
#include "core/checked.h"
#include "core/fp_env.h"
#include "isobit/linalg.h"
#include "ops/integer_matrix.h"

namespace isobit {
namespace {

constexpr int kMaxCode = 16383;

void check_rows(const int16_t* codes, const int32_t* exponents, int64_t rows, int64_t k, const char* who,
                const std::string& name) {
  for (int64_t r = 0; r < rows; ++r) {
    expect(exponents[r] >= kMinInt15Exponent && exponents[r] <= kMaxInt15Exponent, who, name + " exponents",
           std::to_string(kMinInt15Exponent) + ".." + std::to_string(kMaxInt15Exponent),
           std::to_string(exponents[r]) + " in row " + std::to_string(r));
    for (int64_t i = r * k; i < (r + 1) * k; ++i)
      expect(codes[i] >= -kMaxCode && codes[i] <= kMaxCode, who, name + " codes", "-16383..16383",
             std::to_string(codes[i]) + " in row " + std::to_string(r));
  }
}

}  // namespace

void quantize_int15(const float* x, int64_t rows, int64_t k, int16_t* codes, int32_t* exponents) {
  const FpEnv environment;
  const kernels::KernelTable& table = kernels::active_table();
  expect(table.first_nonfinite(x, rows * k) == rows * k, "linalg.quantize_int15", "x", "finite values",
         "NaN or infinity");
  const int64_t stride = kernels::int15_stride(k);
  std::vector<int16_t> row(static_cast<size_t>(stride));
  for (int64_t r = 0; r < rows; ++r) {
    table.quantize_int15(x + r * k, k, 1, k, row.data(), stride, exponents + r);
    std::copy_n(row.data(), k, codes + r * k);
  }
}

void dequantize_int15(const int16_t* codes, const int32_t* exponents, int64_t rows, int64_t k, float* x) {
  constexpr const char* kWho = "linalg.dequantize_int15";
  const FpEnv environment;
  check_rows(codes, exponents, rows, k, kWho, "x");
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = r * k; i < (r + 1) * k; ++i) {
      const double value = std::ldexp(static_cast<double>(codes[i]), exponents[r]);
      x[i] = static_cast<float>(value);
      expect(static_cast<double>(x[i]) == value, kWho, "x codes", "codes whose value is a float32",
             std::to_string(codes[i]) + " * 2^" + std::to_string(exponents[r]));
    }
}

void matmul_int15(const int16_t* a, const int32_t* a_exponents, int64_t m, const int16_t* b,
                  const int32_t* b_exponents, int64_t n, int64_t k, float* out) {
  constexpr const char* kWho = "linalg.matmul_int15";
  const FpEnv environment;
  expect(k <= kernels::kMaxIntegerK, kWho, "a",
         "at most " + std::to_string(kernels::kMaxIntegerK) + " columns", std::to_string(k));
  check_rows(a, a_exponents, m, k, kWho, "a");
  check_rows(b, b_exponents, n, k, kWho, "b");
  if (m == 0 || n == 0) return;
  if (k == 0) {
    std::fill_n(out, m * n, 0.0f);
    return;
  }
  PackedMatrix w;
  w.n = n;
  w.k = k;
  w.profile = NumericProfile::kFixed15V1;
  SlabPool pool;
  ops::allocate_integer_panels(w, pool);
  ops::pack_int15_codes(b, b_exponents, 0, n, w);
  ops::IntegerRows rows;
  rows.take_int15(a, a_exponents, m, k);
  const kernels::KernelTable& table = kernels::active_table();
  constexpr int64_t kRows = 32, kColumns = 2 * kernels::kPanel;
  const int64_t columns = (n + kColumns - 1) / kColumns;
  cpu::parallel_for((m + kRows - 1) / kRows * columns, [&](int64_t unit) {
    const int64_t row = unit / columns * kRows, col = unit % columns * kColumns;
    rows.multiply(table, row, std::min(kRows, m - row), w, col, std::min(kColumns, n - col), nullptr,
                  out + row * n + col, n);
  });
  expect(table.first_nonfinite(out, m * n) == m * n, kWho, "result", "finite values", "an overflow");
}

}  // namespace isobit
