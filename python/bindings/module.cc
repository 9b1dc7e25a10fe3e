// SPDX-License-Identifier: Apache-2.0
// The extension module isobit._core: every class and function of the library that Python reaches.
#include <nanobind/nanobind.h>

#include "array_python.h"
#include "checkpoint.h"
#include "diagnostics.h"
#include "errors.h"
#include "int15.h"
#include "linalg.h"
#include "lowbit.h"
#include "mamba.h"
#include "model.h"
#include "plan.h"
#include "runtime.h"
#include "session.h"
#include "state.h"
#include "transformer.h"

NB_MODULE(_core, m) {
  using namespace isobit::python;
  m.doc() = "The compiled part of isobit. Use the names that the package exports.";
  // Objects that live until the interpreter exits are not a mistake of the user's.
  nanobind::set_leak_warnings(false);
  register_errors();
  bind_array(m);
  bind_state(m);
  bind_transformer(m);
  bind_mamba_state(m);
  bind_mamba(m);
  bind_session(m);
  bind_plan(m);
  bind_checkpoint(m);
  bind_model(m);
  bind_linalg(m);
  bind_int15(m);
  bind_lowbit(m);
  bind_runtime(m);
  bind_diagnostics(m);
}
