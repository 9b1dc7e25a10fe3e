// SPDX-License-Identifier: Apache-2.0
// How the library's exceptions become Python's.
#pragma once

#include <exception>
#include <new>
#include <string>

namespace isobit::python {

/// MemoryError that says what did not fit.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

/// isobit::ValueError -> ValueError, UnsupportedModel -> isobit.models.UnsupportedModel, and so on.
void register_errors();

/// "[op] argument: expected ..., got ..."
std::string message(const std::string& op, const std::string& argument, const std::string& expected,
                    const std::string& got);

/// The result of `make`; where memory does not suffice, OutOfMemory that names what was asked for.
template <class Make>
auto named_memory(const std::string& op, const std::string& argument, const std::string& got, Make make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(message(op, argument, "a size that fits into memory", got));
  }
}

}  // namespace isobit::python
