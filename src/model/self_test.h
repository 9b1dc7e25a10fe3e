// SPDX-License-Identifier: Apache-2.0
// The cases of self_test(). Each hashes its results as contract 11 says: binary32 and int32, little-endian.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/sha256.h"
#include "isobit/self_test.h"
#include "kernels/table.h"

namespace isobit {

struct GoldenCase {
  std::string name;
  std::function<void(Sha256&)> run;
};

void hash_values(Sha256& hash, std::span<const float> values);
void hash_ids(Sha256& hash, std::span<const int32_t> ids);

/// The entries of one table, which need not be the active one.
std::vector<GoldenCase> kernel_cases(const kernels::KernelTable& table);
/// Rotary tables, blocks and models, with the active table and threads.
std::vector<GoldenCase> model_cases();

std::vector<StageResult> run_cases(const std::vector<GoldenCase>& cases);

}  // namespace isobit
