// SPDX-License-Identifier: Apache-2.0
// Measures the functions of one number over all 2^32 inputs: `isobit_ulp_sweep [--threads N] [function ...]`.
//
// Every output of the active instruction set is compared with binary64; the inputs with the largest errors
// are measured again with MPFR. Prints a row for docs/functions.md: the largest error in ulp where |exact| >=
// 2^-100, the largest absolute error below, and where they occur.
#include <mpfr.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "isobit/runtime.h"
#include "kernels/accuracy/oracle.h"

namespace isobit::kernels {
namespace {

constexpr double kSmall = 0x1p-100;
constexpr size_t kKept = 64;  // candidates that MPFR measures

struct Candidate {
  double error = 0.0;
  float x = 0.0f, y = 0.0f;
};

/// The candidates with the largest errors.
class Largest {
 public:
  void offer(const Candidate& c) {
    if (!(c.error > floor_)) return;
    list_.push_back(c);
    if (list_.size() >= 4 * kKept) shrink();
  }
  /// An error up to this one is not kept.
  double least() const { return floor_; }
  const std::vector<Candidate>& shrink() {
    std::sort(list_.begin(), list_.end(),
              [](const Candidate& a, const Candidate& b) { return a.error > b.error; });
    if (list_.size() > kKept) list_.resize(kKept);
    if (list_.size() == kKept) floor_ = list_.back().error;
    return list_;
  }

 private:
  std::vector<Candidate> list_;
  double floor_ = 0.0;
};

struct Sweep {
  Largest ulp, absolute;
  int64_t misplaced = 0;  // finite inputs with a NaN in exactly one of result and exact value
};

void sweep(Unary kind, uint64_t begin, uint64_t end, Sweep& s) {
  constexpr int kChunk = 1024;
  float x[kChunk], y[kChunk];
  double value[kChunk], ulps[kChunk], below[kChunk];
  for (uint64_t chunk = begin; chunk < end; chunk += kChunk) {
    for (int i = 0; i < kChunk; ++i)
      x[i] = __builtin_bit_cast(float, static_cast<uint32_t>(chunk) + static_cast<uint32_t>(i));
    active_table().unary(kind, x, kChunk, y);
    oracle(kind, x, kChunk, value);
    double worst_ulps = 0.0, worst_below = 0.0;
    int64_t misplaced = 0;
    for (int i = 0; i < kChunk; ++i) {
      const bool small = std::abs(value[i]) < kSmall;
      ulps[i] = small ? 0.0 : ulp_error(y[i], value[i]);
      below[i] = small ? std::abs(y[i] - value[i]) : 0.0;
      worst_ulps = ulps[i] > worst_ulps ? ulps[i] : worst_ulps;
      worst_below = below[i] > worst_below ? below[i] : worst_below;
      misplaced += std::abs(x[i]) <= 0x1.fffffep127f && (value[i] != value[i]) != (y[i] != y[i]);
    }
    s.misplaced += misplaced;
    for (int i = 0; i < kChunk && worst_ulps > s.ulp.least(); ++i) s.ulp.offer({ulps[i], x[i], y[i]});
    for (int i = 0; i < kChunk && worst_below > s.absolute.least(); ++i)
      s.absolute.offer({below[i], x[i], y[i]});
  }
}

// The functions that MPFR does not have. y may not be x.
void mp_logistic(mpfr_t y, const mpfr_t minus_exponent, const mpfr_t numerator) {
  mpfr_neg(y, minus_exponent, MPFR_RNDN);
  mpfr_exp(y, y, MPFR_RNDN);
  mpfr_add_ui(y, y, 1, MPFR_RNDN);
  mpfr_div(y, numerator, y, MPFR_RNDN);
}
void mp_gelu(mpfr_t y, const mpfr_t x) {
  mpfr_set_ui(y, 2, MPFR_RNDN);
  mpfr_sqrt(y, y, MPFR_RNDN);
  mpfr_div(y, x, y, MPFR_RNDN);
  mpfr_neg(y, y, MPFR_RNDN);
  mpfr_erfc(y, y, MPFR_RNDN);
  mpfr_mul(y, y, x, MPFR_RNDN);
  mpfr_div_2ui(y, y, 1, MPFR_RNDN);
}
void mp_gelu_tanh(mpfr_t y, const mpfr_t x) {
  mpfr_t u, pi;
  mpfr_inits2(300, u, pi, static_cast<mpfr_ptr>(nullptr));
  mpfr_set_str(u, "0.044715", 10, MPFR_RNDN);
  mpfr_mul(u, u, x, MPFR_RNDN);
  mpfr_mul(u, u, x, MPFR_RNDN);
  mpfr_add_ui(u, u, 1, MPFR_RNDN);
  mpfr_mul(u, u, x, MPFR_RNDN);
  mpfr_const_pi(pi, MPFR_RNDN);
  mpfr_ui_div(pi, 8, pi, MPFR_RNDN);
  mpfr_sqrt(pi, pi, MPFR_RNDN);
  mpfr_mul(u, u, pi, MPFR_RNDN);
  mp_logistic(y, u, x);
  mpfr_clears(u, pi, static_cast<mpfr_ptr>(nullptr));
}

/// y = the function of x to 300 bits.
void exact(Unary kind, mpfr_t y, const mpfr_t x) {
  mpfr_t one;
  mpfr_init2(one, 300);
  mpfr_set_ui(one, 1, MPFR_RNDN);
  using Mp = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
  constexpr Mp kMp[] = {mpfr_exp, mpfr_log, mpfr_log1p, mpfr_expm1, mpfr_tanh, mpfr_erf, mpfr_erfc, nullptr,
                        nullptr,  nullptr,  nullptr,    nullptr,    mpfr_sin,  mpfr_cos, nullptr};
  if (kMp[static_cast<int>(kind)]) {
    kMp[static_cast<int>(kind)](y, x, MPFR_RNDN);
  } else if (kind == Unary::kSigmoid) {
    mp_logistic(y, x, one);
  } else if (kind == Unary::kSilu) {
    mp_logistic(y, x, x);
  } else if (kind == Unary::kSoftplus) {
    mpfr_exp(y, x, MPFR_RNDN);
    mpfr_log1p(y, y, MPFR_RNDN);
  } else if (kind == Unary::kGelu) {
    mp_gelu(y, x);
  } else if (kind == Unary::kGeluTanh) {
    mp_gelu_tanh(y, x);
  } else {  // relu
    mpfr_set_ui(y, 0, MPFR_RNDN);
    mpfr_max(y, y, x, MPFR_RNDN);
  }
  mpfr_clear(one);
}

/// The candidate with the largest error by MPFR, in ulp or absolute.
Candidate measured(Unary kind, const std::vector<Candidate>& candidates, bool in_ulp) {
  Candidate worst;
  mpfr_t x, y;
  mpfr_inits2(300, x, y, static_cast<mpfr_ptr>(nullptr));
  for (Candidate c : candidates) {
    if (std::isinf(c.x)) continue;
    mpfr_set_flt(x, c.x, MPFR_RNDN);
    exact(kind, y, x);
    const double value = mpfr_get_d(y, MPFR_RNDN);
    if (std::abs(value) <= 0x1p128) {
      mpfr_sub_d(y, y, bounded(c.y), MPFR_RNDN);
      const double difference = std::abs(mpfr_get_d(y, MPFR_RNDN));
      c.error = in_ulp ? difference / ulp_of(value) : difference;
    }
    if (c.error > worst.error) worst = c;
  }
  mpfr_clears(x, y, static_cast<mpfr_ptr>(nullptr));
  return worst;
}

void report(Unary kind, int threads) {
  std::vector<Sweep> parts(static_cast<size_t>(threads));
  std::vector<std::jthread> workers;
  const uint64_t share = (uint64_t{1} << 32) / static_cast<uint64_t>(threads) / 4096 * 4096;
  for (int t = 0; t < threads; ++t) {
    const uint64_t begin = share * static_cast<uint64_t>(t);
    const uint64_t end = t + 1 == threads ? uint64_t{1} << 32 : begin + share;
    workers.emplace_back(sweep, kind, begin, end, std::ref(parts[static_cast<size_t>(t)]));
  }
  workers.clear();
  std::vector<Candidate> ulp, absolute;
  int64_t misplaced = 0;
  for (Sweep& s : parts) {
    for (const Candidate& c : s.ulp.shrink()) ulp.push_back(c);
    for (const Candidate& c : s.absolute.shrink()) absolute.push_back(c);
    misplaced += s.misplaced;
  }
  const Candidate u = measured(kind, ulp, true), a = measured(kind, absolute, false);
  std::printf("| %s | %.4f | `%a` | ", kUnaryNames[static_cast<int>(kind)], u.error, u.x);
  if (a.error > 0.0) {
    std::printf("2^%.2f | `%a` |", std::log2(a.error), a.x);
  } else {
    std::printf("0 | |");
  }
  std::printf(misplaced ? " NaN misplaced: %lld\n" : "\n", static_cast<long long>(misplaced));
  std::fflush(stdout);
}

}  // namespace
}  // namespace isobit::kernels

int main(int argc, char** argv) {
  using isobit::kernels::Unary;
  int threads = 1;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      threads = std::max(1, std::atoi(argv[++i]));
    } else {
      wanted.push_back(argv[i]);
    }
  }
  std::printf(
      "on %s\n| function | worst ulp | at | worst absolute error below 2^-100 | at "
      "|\n|---|---|---|---|---|\n",
      isobit::active_isa().c_str());
  for (int k = 0; k < static_cast<int>(Unary::kCount); ++k) {
    const std::string name = isobit::kernels::kUnaryNames[k];
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end()) {
      isobit::kernels::report(static_cast<Unary>(k), threads);
    }
  }
  return 0;
}
