// SPDX-License-Identifier: Apache-2.0
// Memory, shapes and views of isobit.Array. Nothing here knows about Python.
#include "array.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "errors.h"
#include "isobit/error.h"

namespace isobit::python {
namespace {

constexpr int64_t kAlignment = 64;

constexpr DTypeInfo kDTypes[] = {
    {DType::F32, "f4", "float32", "f"}, {DType::F64, "f8", "float64", "d"}, {DType::I32, "i4", "int32", "i"},
    {DType::I64, "i8", "int64", "l"},   {DType::U32, "u4", "uint32", "I"},  {DType::U8, "u1", "uint8", "B"},
    {DType::F16, "f2", "float16", "e"}, {DType::U16, "u2", "uint16", "H"},  {DType::I8, "i1", "int8", "b"},
};

// Copies a strided block into consecutive memory, the last axis fastest.
std::byte* pack(const StridedView& view, size_t axis, const std::byte* src, std::byte* dst) {
  const int64_t item = itemsize(view.dtype);
  if (axis == view.shape.size()) {
    std::memcpy(dst, src, static_cast<size_t>(item));
    return dst + item;
  }
  const int64_t n = view.shape[axis], stride = view.strides[axis];
  if (axis + 1 == view.shape.size() && stride == item) {
    std::memcpy(dst, src, static_cast<size_t>(n * item));
    return dst + n * item;
  }
  for (int64_t i = 0; i < n; ++i) dst = pack(view, axis + 1, src + i * stride, dst);
  return dst;
}

StridedView transposed(const StridedView& view) {
  StridedView t = view;
  t.shape.assign(view.shape.rbegin(), view.shape.rend());
  t.strides.assign(view.strides.rbegin(), view.strides.rend());
  return t;
}

}  // namespace

const DTypeInfo* dtype_info(DType dtype) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.dtype == dtype) return &info;
  }
  return nullptr;
}

const DTypeInfo* dtype_info(const std::string& name) {
  const bool marked = name.size() == 3 && (name[0] == '<' || name[0] == '|' || name[0] == '=');
  const std::string code = marked ? name.substr(1) : name;
  for (const DTypeInfo& info : kDTypes) {
    if (code == info.code || name == info.name) return &info;
  }
  return nullptr;
}

std::string dtype_codes() {
  std::string s;
  for (const DTypeInfo& info : kDTypes) s += std::string(s.empty() ? "" : ", ") + info.code;
  return s;
}

int64_t checked_size(const std::vector<int64_t>& shape, int64_t itemsize) {
  int64_t n = itemsize;
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent < 0) throw ValueError(message("Array", "shape", "no negative extent", shape_text(shape)));
    if (extent == 0)
      empty = true;
    else if (__builtin_mul_overflow(n, extent, &n))
      throw ValueError(message("Array", "shape", "less than 2**63 bytes", shape_text(shape)));
  }
  return empty ? 0 : n / itemsize;
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape, int64_t itemsize, bool fortran) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = itemsize;
  for (size_t k = 0; k < shape.size(); ++k) {
    const size_t axis = fortran ? k : shape.size() - 1 - k;
    strides[axis] = step;
    step *= shape[axis] > 0 ? shape[axis] : 1;
  }
  return strides;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string s = "(";
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + (shape.size() == 1 ? ",)" : ")");
}

int64_t StridedView::size() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

// An axis of extent 1 may have any stride, and so may every axis of an empty view.
static bool contiguous(const StridedView& view, bool fortran) {
  int64_t step = itemsize(view.dtype);
  if (view.size() == 0) return true;
  for (size_t k = 0; k < view.shape.size(); ++k) {
    const size_t axis = fortran ? k : view.shape.size() - 1 - k;
    if (view.shape[axis] != 1 && view.strides[axis] != step) return false;
    step *= view.shape[axis];
  }
  return true;
}

bool StridedView::c_contiguous() const { return contiguous(*this, false); }
bool StridedView::f_contiguous() const { return contiguous(*this, true); }

Array Array::empty(DType dtype, std::vector<int64_t> shape, bool fortran) {
  Array a;
  a.dtype = dtype;
  const int64_t nbytes = checked_size(shape, itemsize(dtype)) * itemsize(dtype);
  const auto refuse = [nbytes] {
    throw OutOfMemory(
        message("Array", "shape", "a size that fits into memory", std::to_string(nbytes) + " bytes"));
  };
  if (nbytes > std::numeric_limits<int64_t>::max() - kAlignment) refuse();
  const int64_t padded = (nbytes / kAlignment + 1) * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, static_cast<size_t>(padded));
  if (memory == nullptr) refuse();
  a.keep = std::shared_ptr<void>(memory, std::free);
  a.data = static_cast<std::byte*>(memory);
  a.strides = contiguous_strides(shape, itemsize(dtype), fortran);
  a.shape = std::move(shape);
  return a;
}

Array Array::zeros(DType dtype, std::vector<int64_t> shape, bool fortran) {
  Array a = empty(dtype, std::move(shape), fortran);
  std::memset(a.data, 0, static_cast<size_t>(a.nbytes()));
  return a;
}

Array Array::borrow(StridedView view) {
  Array a;
  static_cast<StridedView&>(a) = std::move(view);
  a.strides = contiguous_strides(a.shape, itemsize(a.dtype), !a.c_contiguous());
  a.owned = false;
  return a;
}

Array Array::copy_of(const StridedView& view, bool fortran) {
  Array a = empty(view.dtype, view.shape, fortran);
  if (view.size() == 0) return a;
  if (fortran) {
    pack(transposed(view), 0, view.data, a.data);
  } else {
    pack(view, 0, view.data, a.data);
  }
  return a;
}

Array Array::reshaped(std::vector<int64_t> new_shape) const {
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < new_shape.size(); ++i) {
    if (new_shape[i] != -1) continue;
    if (unknown >= 0)
      throw ValueError(message("Array.reshape", "shape", "at most one -1", shape_text(new_shape)));
    unknown = static_cast<int64_t>(i);
  }
  std::vector<int64_t> filled = new_shape;
  if (unknown >= 0) {
    filled[unknown] = 1;
    known = checked_size(filled, 1);
    filled[unknown] = known == 0 ? 0 : size() / known;
  }
  if (checked_size(filled, 1) != size())
    throw ValueError(
        message("Array.reshape", "shape", std::to_string(size()) + " elements", shape_text(new_shape)));
  Array a = fortran() ? copy_of(*this) : *this;
  a.strides = contiguous_strides(filled, itemsize(dtype), false);
  a.shape = std::move(filled);
  return a;
}

Array Array::item(int64_t index) const {
  Array a = *this;
  a.owned = false;
  a.data += index * strides[0];
  a.shape.erase(a.shape.begin());
  a.strides.erase(a.strides.begin());
  return a.c_contiguous() ? a : copy_of(a);
}

Array Array::slice(int64_t start, int64_t step, int64_t count) const {
  Array a = *this;
  a.owned = false;
  a.shape[0] = count;
  if (count > 0) a.data += start * strides[0];
  a.strides[0] = step * strides[0];
  if (!a.c_contiguous()) return copy_of(a);
  a.strides = contiguous_strides(a.shape, itemsize(dtype), false);
  return a;
}

}  // namespace isobit::python
