// SPDX-License-Identifier: Apache-2.0
// Array-like Python objects as strided memory: isobit.Array, the buffer protocol (NumPy, memoryview,
// array.array, bytes), DLPack (PyTorch, JAX) and __array_interface__. Never a copy here.
#pragma once

#include <nanobind/nanobind.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "array.h"

namespace isobit::python {

/// Empty when the object offers none of the protocols. `op` and `argument` name it in messages: TypeError for
/// an element type that has no name here or a foreign byte order, ValueError for memory of another device.
std::optional<StridedView> read_array(nanobind::handle object, const std::string& op,
                                      const std::string& argument);

/// As read_array, but a TypeError naming the object's type when it is not array-like.
StridedView require_array(nanobind::handle object, const std::string& op, const std::string& argument);
/// The same for one element type and, unless it is 0, one rank; else TypeError or ValueError.
StridedView require_array(nanobind::handle object, const std::string& op, const std::string& argument,
                          DType dtype, size_t rank = 0);

/// A contiguous and element-aligned row-major view: the same memory where possible, else a copy. Shapes are
/// checked before: a broadcast array can say that it is larger than all memory.
StridedView made_contiguous(StridedView view);

/// "N bytes" of float32 of the extents, for messages.
std::string bytes_of(std::initializer_list<int64_t> extents);

/// The class name of an object, for messages.
std::string class_name(nanobind::handle object);

}  // namespace isobit::python
