// SPDX-License-Identifier: Apache-2.0
// Which kernel table runs: what the build has, what the CPU can do, what the user forced.
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include <atomic>
#include <cstdlib>
#include <string>

#include "isobit/error.h"
#include "isobit/runtime.h"
#include "kernels/table.h"

namespace isobit::kernels {

namespace scalar {
extern const KernelTable table;
}
#ifdef ISOBIT_HAVE_avx2
namespace avx2 {
extern const KernelTable table;
}
#endif
#ifdef ISOBIT_HAVE_avx512
namespace avx512 {
extern const KernelTable table;
}
#endif
#ifdef ISOBIT_HAVE_avx512vnni
namespace avx512vnni {
extern const DotKernels dot_kernels;
}
#endif
#ifdef ISOBIT_HAVE_neon
namespace neon {
extern const KernelTable table;
}
#endif
#ifdef ISOBIT_HAVE_neondot
namespace neondot {
extern const DotKernels dot_kernels;
}
#endif

namespace {

/// `base` with the integer products of an instruction set that adds nothing else.
[[maybe_unused]] KernelTable with_dots(KernelTable base, const DotKernels& dot) {
  base.isa = dot.isa;
  base.dot = dot;
  return base;
}

struct Detected {
  const KernelTable* tables[8];
  int count = 0;

  Detected() {
#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
#ifdef ISOBIT_HAVE_avx512
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
#ifdef ISOBIT_HAVE_avx512vnni
      static const KernelTable vnni = with_dots(avx512::table, avx512vnni::dot_kernels);
      if (__builtin_cpu_supports("avx512vnni")) tables[count++] = &vnni;
#endif
      tables[count++] = &avx512::table;
    }
#endif
#ifdef ISOBIT_HAVE_avx2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables[count++] = &avx2::table;
#endif
#ifdef ISOBIT_HAVE_neondot
    static const KernelTable dots = with_dots(neon::table, neondot::dot_kernels);
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) tables[count++] = &dots;
#endif
#ifdef ISOBIT_HAVE_neon
    tables[count++] = &neon::table;  // part of every aarch64 CPU
#endif
    tables[count++] = &scalar::table;
  }
};

const Detected& detected() {
  static const Detected d;
  return d;
}

const KernelTable& find(const std::string& name, const char* source) {
  std::string known;
  for (const KernelTable* t : available_tables()) {
    if (name == t->isa) return *t;
    known += known.empty() ? t->isa : std::string(", ") + t->isa;
  }
  throw ValueError(std::string("[") + source + "] expected one of " + known + ", got '" + name + "'");
}

std::atomic<const KernelTable*>& current() {
  static std::atomic<const KernelTable*> table{[] {
    const char* forced = std::getenv("ISOBIT_ISA");
    return forced && *forced ? &find(forced, "ISOBIT_ISA") : detected().tables[0];
  }()};
  return table;
}

}  // namespace

TableList available_tables() { return {detected().tables, detected().count}; }
const KernelTable& active_table() { return *current().load(std::memory_order_relaxed); }

}  // namespace isobit::kernels

namespace isobit {

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const kernels::KernelTable* t : kernels::available_tables()) names.emplace_back(t->isa);
  return names;
}

std::string active_isa() { return kernels::active_table().isa; }

void set_isa(const std::string& name) { kernels::current() = &kernels::find(name, "set_isa"); }

}  // namespace isobit
