// SPDX-License-Identifier: Apache-2.0
// The pieces of the Python class isobit.Array.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "array.h"

namespace isobit::python {

// Arguments (array_build.cc). TypeError for a wrong kind, ValueError for a wrong value.
DType parse_dtype(nanobind::handle dtype);
int64_t parse_index(nanobind::handle value, const char* argument);
std::vector<int64_t> parse_shape(nanobind::handle shape);
bool parse_order(const std::string& order);  // true: column-major
Array from_list(nanobind::handle values, nanobind::handle dtype);
Array from_buffer(nanobind::handle object, nanobind::handle dtype, nanobind::handle shape);
Array frombytes(nanobind::handle data, nanobind::handle dtype, nanobind::handle shape,
                const std::string& order);
Array full(nanobind::handle shape, nanobind::handle value, nanobind::handle dtype, const std::string& order);

// Ways out (array_protocols.cc).
nanobind::tuple tuple_of(const std::vector<int64_t>& values);
nanobind::dict array_interface(const Array& a);
nanobind::object dlpack(nanobind::handle self, nanobind::kwargs kwargs);
nanobind::tuple reduce(nanobind::handle self, int protocol);
int get_buffer(PyObject* self, Py_buffer* view, int flags);

void bind_array(nanobind::module_& m);

}  // namespace isobit::python
