// SPDX-License-Identifier: Apache-2.0
// isobit.Array: a typed, shaped, contiguous (row- or column-major) piece of memory with shared ownership. It
// does no arithmetic and does not broadcast; it carries results to NumPy, PyTorch or plain Python without a
// copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "instance.h"
#include "isobit/tensor.h"

namespace isobit::python {

/// One element type of Array: "f4" (NumPy's short code), "float32", and the struct-module format of the
/// buffer protocol.
struct DTypeInfo {
  DType dtype;
  const char* code;
  const char* name;
  const char* format;
};

/// The element types an Array can have; nullptr for the others.
const DTypeInfo* dtype_info(DType dtype);
/// From "f4", "<f4" or "float32"; nullptr when unknown.
const DTypeInfo* dtype_info(const std::string& name);
/// "f4, f8, ..." for messages.
std::string dtype_codes();

/// Any strided memory that somebody else owns; `keep` holds it alive.
struct StridedView {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // bytes
  std::byte* data = nullptr;
  bool readonly = false;
  std::shared_ptr<void> keep;

  int64_t size() const;
  bool c_contiguous() const;
  bool f_contiguous() const;
};

class Array : public StridedView {
 public:
  /// Uninitialised and 64-byte aligned. ValueError for a negative extent or a size beyond int64.
  static Array empty(DType dtype, std::vector<int64_t> shape, bool fortran = false);
  static Array zeros(DType dtype, std::vector<int64_t> shape, bool fortran = false);
  /// Shares the memory of a contiguous view.
  static Array borrow(StridedView view);
  /// A fresh copy of any view.
  static Array copy_of(const StridedView& view, bool fortran = false);

  int64_t nbytes() const { return size() * itemsize(dtype); }
  /// Column-major and not row-major as well.
  bool fortran() const { return !c_contiguous(); }
  bool owned = true;

  Array reshaped(std::vector<int64_t> new_shape) const;
  /// Along the first axis; shares memory where the result is contiguous, else copies.
  Array item(int64_t index) const;
  Array slice(int64_t start, int64_t step, int64_t count) const;
  /// Exact, or rounded to nearest even when the target is a narrower float; ValueError when an integer target
  /// cannot hold a value.
  Array astype(DType target) const;
};

/// Number of elements; ValueError for a negative extent or overflow.
int64_t checked_size(const std::vector<int64_t>& shape, int64_t itemsize);
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape, int64_t itemsize, bool fortran);
/// "(2, 3)", "(2,)"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace isobit::python

template <>
struct nanobind::detail::type_caster<isobit::python::Array>
    : isobit::python::InstanceCaster<isobit::python::Array> {};
