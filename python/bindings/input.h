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

/// A contiguous and element-aligned row-major view: the same memory where possible, else a copy.
StridedView made_contiguous(StridedView view);

/// float32 as it lies; TypeError for another element type. For checks of the shape before anything is copied.
StridedView require_float32_view(nanobind::handle object, const std::string& op, const std::string& argument);

/// float32, as made_contiguous; TypeError for another element type.
StridedView require_float32(nanobind::handle object, const std::string& op, const std::string& argument);

/// "N bytes" of float32 of the extents, for messages.
std::string bytes_of(std::initializer_list<int64_t> extents);

/// The class name of an object, for messages.
std::string class_name(nanobind::handle object);

}  // namespace isobit::python
