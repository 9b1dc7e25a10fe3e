// SPDX-License-Identifier: Apache-2.0
#include "model/self_test.h"

#include <bit>

#include "core/fp_env.h"
#include "model/goldens.h"

namespace isobit {
namespace {

void hash_word(Sha256& hash, uint32_t word) {
  const unsigned char bytes[4] = {static_cast<unsigned char>(word), static_cast<unsigned char>(word >> 8),
                                  static_cast<unsigned char>(word >> 16),
                                  static_cast<unsigned char>(word >> 24)};
  hash.update(bytes, sizeof bytes);
}

const char* golden(const std::string& name) {
  static_assert(kGoldenContract == 1);
  for (const Golden& g : kGoldens)
    if (name == g.name) return g.digest;
  return "none";
}

}  // namespace

void hash_values(Sha256& hash, std::span<const float> values) {
  for (const float v : values) hash_word(hash, std::bit_cast<uint32_t>(v));
}

void hash_ids(Sha256& hash, std::span<const int32_t> ids) {
  for (const int32_t id : ids) hash_word(hash, static_cast<uint32_t>(id));
}

std::vector<StageResult> run_cases(const std::vector<GoldenCase>& cases) {
  const FpEnv environment;
  std::vector<StageResult> results;
  for (const GoldenCase& c : cases) {
    Sha256 hash;
    c.run(hash);
    StageResult r{c.name, golden(c.name), hash.hex(), false};
    r.ok = r.got == r.expected;
    results.push_back(std::move(r));
  }
  return results;
}

std::vector<StageResult> self_test() {
  std::vector<GoldenCase> cases = kernel_cases(kernels::active_table());
  for (const GoldenCase& c : model_cases()) cases.push_back(c);
  return run_cases(cases);
}

}  // namespace isobit
