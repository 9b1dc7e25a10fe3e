// SPDX-License-Identifier: Apache-2.0
// Process-wide functions: instruction sets, threads, versions, and Ctrl-C in long calls.
#include "runtime.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <limits>

#include "errors.h"
#include "ids.h"
#include "isobit/error.h"
#include "isobit/runtime.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

unsigned long main_thread = 0;

// Python delivers signals on its main thread only. Taking the GIL can wait for another thread's time slice,
// so it is done a few times a second and never in a call that is shorter than that.
void check_signals() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kInterval = std::chrono::milliseconds(100);
  static Clock::time_point last = Clock::now();
  if (PyThread_get_thread_ident() != main_thread) return;
  const Clock::time_point now = Clock::now();
  if (now - last < kInterval) return;
  last = now;
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace

void bind_runtime(nb::module_& m) {
  main_thread =
      nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  set_interrupt_check(check_signals);

  m.def("available_isas", &available_isas,
        "The instruction sets of this build that this CPU runs, best first.");
  m.def("active_isa", &active_isa, "The instruction set in use. It cannot change a bit of any result.");
  m.def(
      "set_isa", [](nb::handle name) { set_isa(read_string(name, "set_isa", "name")); }, "name"_a.none(),
      nb::sig("def set_isa(name: str) -> None"), "Uses another of available_isas(). ValueError naming them.");
  m.def("num_threads", &num_threads, "Threads in use. Their number cannot change a bit of any result.");
  m.def(
      "set_num_threads",
      [](nb::handle n) {
        const int64_t wanted = read_int(n, "set_num_threads", "n");
        if (wanted < 1 || wanted > std::numeric_limits<int>::max())
          throw ValueError(message("set_num_threads", "n", "1..1024", std::to_string(wanted)));
        set_num_threads(static_cast<int>(wanted));
      },
      "n"_a.none(), nb::sig("def set_num_threads(n: int) -> None"), "1..1024, else ValueError.");
  m.def("version", &version, "Version of the library.");
  m.def("contract_version", &contract_version,
        "Version of the arithmetic contract: equal versions give equal bits.");
}

}  // namespace isobit::python
