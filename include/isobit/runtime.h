// SPDX-License-Identifier: Apache-2.0
// What the process computes with: instruction set, threads. Neither can change a bit of any result.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace isobit {

/// Instruction sets this build has and this CPU runs, best first: "avx512", "avx2", "neon", "scalar".
std::vector<std::string> available_isas();
/// The one in use: the best, unless the environment variable ISOBIT_ISA or set_isa names another.
std::string active_isa();
/// Throws ValueError naming the available ones.
void set_isa(const std::string& name);

/// Threads in use: CPU affinity of the process, unless ISOBIT_NUM_THREADS or set_num_threads says otherwise.
int num_threads();
/// 1..1024, else ValueError.
void set_num_threads(int n);

/// Called between pieces of long work on the calling thread; it may throw to abandon the call (state stays as
/// before).
void set_interrupt_check(std::function<void()> check);

/// Version of the library and of the arithmetic contract.
std::string version();
int contract_version();

}  // namespace isobit
