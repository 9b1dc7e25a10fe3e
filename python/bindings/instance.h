// SPDX-License-Identifier: Apache-2.0
// What Python can do to an object behind its constructor's back, refused with a message that says so: calls
// before __init__ (cls.__new__(cls), a subclass that forgets super().__init__), a second __init__, and
// assignments to what is read-only.
#pragma once

#include <nanobind/nanobind.h>

#include "errors.h"
#include "isobit/error.h"

namespace isobit::python {

[[noreturn]] void refuse_instance(nanobind::handle object, bool has_run);

/// The caster of a bound class. nanobind's own answers a wrong instance with the list of signatures; this one
/// takes it, and raises when the function asks for the object. Used as
///   template <> struct nanobind::detail::type_caster<T> : isobit::python::InstanceCaster<T> {};
/// beside the definition of T.
template <class T>
struct InstanceCaster : nanobind::detail::type_caster_base<T> {
  using Base = nanobind::detail::type_caster_base<T>;

  bool from_python(nanobind::handle source, uint32_t flags,
                   nanobind::detail::cleanup_list* cleanup) noexcept {
    const bool constructs = (flags & nanobind::detail::cast_flags::construct) != 0;
    if (nanobind::inst_check(source) && nanobind::inst_ready(source) == constructs &&
        nanobind::isinstance<T>(source)) {
      wrong_ = source;
      has_run_ = constructs;
      return true;
    }
    return Base::from_python(source, flags, cleanup);
  }

  template <typename Wanted>
  bool can_cast() const noexcept {
    return wrong_.is_valid() || Base::template can_cast<Wanted>();
  }

  operator T*() { return checked().operator T*(); }
  operator T&() { return checked().operator T&(); }
  operator T&&() { return checked().operator T&&(); }

 private:
  Base& checked() {
    if (wrong_.is_valid()) refuse_instance(wrong_, has_run_);
    return *this;
  }

  nanobind::handle wrong_;
  bool has_run_ = false;
};

/// For classes whose attributes users know: an assignment to a read-only one names it.
extern const PyType_Slot kNamesReadOnly[];

}  // namespace isobit::python
