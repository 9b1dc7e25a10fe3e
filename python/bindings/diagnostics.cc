// SPDX-License-Identifier: Apache-2.0
// The diagnostics as plain Python values.
#include "isobit/diagnostics.h"

#include "diagnostics.h"

namespace nb = nanobind;

namespace isobit::python {
namespace {

nb::list self_test() {
  std::vector<StageDigest> stages;
  {
    nb::gil_scoped_release release;
    stages = isobit::self_test();
  }
  nb::list result;
  for (const StageDigest& s : stages)
    result.append(nb::make_tuple(s.stage.c_str(), s.expected.c_str(), s.got.c_str()));
  return result;
}

nb::dict measure() {
  Speed speed;
  {
    nb::gil_scoped_release release;
    speed = isobit::measure();
  }
  nb::dict result;
  result["bandwidth_gb_per_second"] = speed.bandwidth_gb_per_second;
  result["gflop_per_second"] = speed.gflop_per_second;
  return result;
}

}  // namespace

void bind_diagnostics(nb::module_& m) {
  m.def("self_test", self_test, nb::sig("def self_test() -> list[tuple[str, str, str]]"),
        "[(stage, digest it must have, digest it has)] with the active instruction set, from single\n"
        "functions to a decoder block: the first that differs says where to look.");
  m.def("measure", measure, nb::sig("def measure() -> dict[str, float]"),
        "The speeds of reading memory and of multiply-adds, in a second or so.");
}

}  // namespace isobit::python
