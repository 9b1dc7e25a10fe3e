// SPDX-License-Identifier: Apache-2.0
#include "instance.h"

#include "input.h"

namespace nb = nanobind;

namespace isobit::python {
namespace {

// A property without a setter, of the extension's or of Python's.
bool is_read_only(nb::handle object, nb::handle name) {
  const nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
  const nb::object found = nb::getattr(type, name, nb::none());
  return PyObject_TypeCheck(found.ptr(), &PyProperty_Type) && found.attr("fset").is_none();
}

int set_attribute(PyObject* object, PyObject* name, PyObject* value) {
  try {
    if (!is_read_only(object, name)) return PyObject_GenericSetAttr(object, name, value);
    const char* hint = nb::hasattr(object, "set_params") ? " (set_params replaces arguments)" : "";
    PyErr_SetString(PyExc_AttributeError,
                    message(class_name(object), nb::cast<std::string>(nb::str(name)),
                            std::string("to be read only") + hint, value ? "an assignment" : "a deletion")
                        .c_str());
  } catch (nb::python_error& error) {
    error.restore();
  }
  return -1;
}

}  // namespace

void refuse_instance(nb::handle object, bool has_run) {
  throw TypeError(message(class_name(object), has_run ? "__init__" : "self",
                          has_run ? "an object that has not been initialised" : "an initialised object",
                          has_run ? "a second __init__" : "one whose __init__ has not run"));
}

const PyType_Slot kNamesReadOnly[] = {{Py_tp_setattro, reinterpret_cast<void*>(set_attribute)}, {0, nullptr}};

}  // namespace isobit::python
