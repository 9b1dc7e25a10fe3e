// SPDX-License-Identifier: Apache-2.0
#include "core/interrupt.h"

#include <functional>

#include "isobit/runtime.h"

namespace isobit {
namespace {

std::function<void()>& check() {
  static std::function<void()> f;
  return f;
}

}  // namespace

void set_interrupt_check(std::function<void()> f) { check() = std::move(f); }

void check_interrupt() {
  if (check()) check()();
}

std::string version() { return "0.1.0"; }
int contract_version() { return 1; }

}  // namespace isobit
