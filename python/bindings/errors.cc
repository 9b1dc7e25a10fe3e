// SPDX-License-Identifier: Apache-2.0
// How the library's exceptions become Python's. The two classes with a face of their own live in
// isobit/_errors.py.
#include "errors.h"

#include <nanobind/nanobind.h>

#include <filesystem>

#include "isobit/error.h"

namespace nb = nanobind;

namespace isobit::python {
namespace {

// File content can end up in a message; what is not UTF-8 is shown escaped.
nb::object text(const char* what) {
  PyObject* s =
      PyUnicode_DecodeUTF8(what, static_cast<Py_ssize_t>(std::string_view(what).size()), "backslashreplace");
  return nb::steal(s);
}

void raise(PyObject* type, const char* what) { PyErr_SetObject(type, text(what).ptr()); }

void translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const NonFiniteError& e) {
    nb::object type = nb::module_::import_("isobit._errors").attr("NonFiniteError");
    nb::object value = type(text(e.what()), e.position, e.layer, text(e.stage.c_str()));
    PyErr_SetObject(type.ptr(), value.ptr());
  } catch (const UnsupportedModel& e) {
    raise(nb::module_::import_("isobit._errors").attr("UnsupportedModel").ptr(), e.what());
  } catch (const ValueError& e) {
    raise(PyExc_ValueError, e.what());
  } catch (const TypeError& e) {
    raise(PyExc_TypeError, e.what());
  } catch (const FileNotFound& e) {
    raise(PyExc_FileNotFoundError, e.what());
  } catch (const NotImplemented& e) {
    raise(PyExc_NotImplementedError, e.what());
  } catch (const Error& e) {
    raise(PyExc_RuntimeError, e.what());
  } catch (const std::filesystem::filesystem_error& e) {
    raise(PyExc_OSError, e.what());
  } catch (const OutOfMemory& e) {
    raise(PyExc_MemoryError, e.what());
  } catch (const std::bad_alloc&) {
    raise(PyExc_MemoryError, "[isobit] memory: expected enough for the call, got less");
  } catch (const std::bad_cast&) {
    raise(PyExc_TypeError,
          "[isobit] argument: expected an object that was initialised, of the documented type, got another");
  }
}

}  // namespace

void register_errors() { nb::register_exception_translator(translate); }

std::string message(const std::string& op, const std::string& argument, const std::string& expected,
                    const std::string& got) {
  return "[" + op + "] " + argument + ": expected " + expected + ", got " + got;
}

}  // namespace isobit::python
