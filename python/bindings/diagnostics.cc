// SPDX-License-Identifier: Apache-2.0
// The diagnostics as plain Python values.
#include "diagnostics.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "isobit/profile.h"
#include "isobit/self_test.h"

namespace nb = nanobind;

namespace isobit::python {
namespace {

nb::list self_test() {
  std::vector<StageResult> stages;
  {
    nb::gil_scoped_release release;
    stages = isobit::self_test();
  }
  nb::list result;
  for (const StageResult& s : stages)
    result.append(nb::make_tuple(s.stage.c_str(), s.expected.c_str(), s.got.c_str()));
  return result;
}

nb::dict measure() {
  MachineRates rates;
  {
    nb::gil_scoped_release release;
    rates = isobit::measure();
  }
  nb::dict result;
  result["bandwidth_gb_per_second"] = rates.read_gb_per_s;
  result["gflop_per_second"] = rates.fma_gflop_per_s;
  return result;
}

nb::list profile() {
  nb::list result;
  for (const StageTime& t : isobit::profile())
    result.append(nb::make_tuple(t.stage.c_str(), t.seconds, t.calls, t.flop));
  return result;
}

using Stage = std::tuple<std::string, double, int64_t, double>;

std::string profile_table(const std::vector<Stage>& stages) {
  std::vector<StageTime> times;
  for (const auto& [stage, seconds, calls, flop] : stages) times.push_back({stage, seconds, calls, flop});
  return isobit::profile_table(std::move(times));
}

}  // namespace

void bind_diagnostics(nb::module_& m) {
  m.def("self_test", self_test, nb::sig("def self_test() -> list[tuple[str, str, str]]"),
        "[(stage, digest it must have, digest it has)] with the active instruction set, from single\n"
        "functions to a decoder block: the first that differs says where to look.");
  m.def("measure", measure, nb::sig("def measure() -> dict[str, float]"),
        "The speeds of reading memory and of multiply-adds, in a second or so.");
  m.def("set_profiling", isobit::set_profiling, nb::arg("on"), nb::sig("def set_profiling(on: bool) -> None"),
        "Starts (from zero) or stops the collection that profile() shows.");
  m.def("profile", profile, nb::sig("def profile() -> list[tuple[str, float, int, float]]"),
        "[(stage, seconds, calls, floating-point operations)] since profiling was switched on, over all "
        "layers.");
  m.def("profile_table", profile_table, nb::arg("stages"),
        nb::sig("def profile_table(stages: list[tuple[str, float, int, float]]) -> str"),
        "What profile() returned as text, one line a stage, the longest first.");
}

}  // namespace isobit::python
