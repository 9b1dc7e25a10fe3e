// SPDX-License-Identifier: Apache-2.0
// Reading and writing safetensors from Python: names, descriptions, tensors as isobit.Array.
#include "checkpoint.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <optional>

#include "array.h"
#include "errors.h"
#include "ids.h"
#include "input.h"
#include "instance.h"
#include "isobit/error.h"
#include "isobit/safetensors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {

/// A SafetensorsFile or Checkpoint that can be closed.
template <class Source>
struct Closable {
  std::optional<Source> source;
  const char* op;

  const Source& opened() const {
    if (!source) throw ValueError(message(op, "file", "an open one", "a closed one"));
    return *source;
  }
};

}  // namespace isobit::python

template <class Source>
struct nanobind::detail::type_caster<isobit::python::Closable<Source>>
    : isobit::python::InstanceCaster<isobit::python::Closable<Source>> {};
template <>
struct nanobind::detail::type_caster<isobit::TensorInfo>
    : isobit::python::InstanceCaster<isobit::TensorInfo> {};

namespace isobit::python {
namespace {

Array read(const TensorView& view, const std::string& name, const std::string& bf16, const char* op) {
  if (bf16 != "widen" && bf16 != "bits")
    throw ValueError(message(op, "bf16", "'widen' or 'bits'", "'" + bf16 + "'"));
  const bool bits = view.dtype == DType::BF16 && bf16 == "bits";
  Array a;
  switch (view.dtype) {
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      a = Array::empty(bits ? DType::U16 : DType::F32, view.shape);
      break;
    case DType::I32:
    case DType::I64:
      a = Array::empty(view.dtype, view.shape);
      break;
    default:
      throw TypeError(
          message(op, "'" + name + "'", "a tensor of F32, F16, BF16, I32 or I64", dtype_name(view.dtype)));
  }
  nb::gil_scoped_release release;
  if (a.dtype == DType::F32) {
    widen_to_f32(view, reinterpret_cast<float*>(a.data));
  } else if (a.nbytes() > 0) {
    std::memcpy(a.data, view.data, static_cast<size_t>(a.nbytes()));
  }
  return a;
}

template <class Source>
nb::class_<Closable<Source>> bind_source(nb::module_& m, const char* name, const char* doc) {
  using Class = Closable<Source>;
  nb::class_<Class> cls(m, name, doc);
  const std::string self = name;
  cls.def(
      "names", [](const Class& c) { return c.opened().names(); }, "Tensor names, sorted.");
  cls.def(
      "__contains__",
      [](const Class& c, nb::handle n) { return c.opened().contains(read_string(n, c.op, "name")); },
      "name"_a.none(), nb::sig("def __contains__(self, name: str, /) -> bool"));
  cls.def(
      "info", [](const Class& c, nb::handle n) { return c.opened().info(read_string(n, c.op, "name")); },
      "name"_a.none(), nb::sig("def info(self, name: str) -> TensorInfo"),
      "dtype, shape, byte range and file of a tensor. ValueError when there is none of that name.");
  cls.def(
      "read",
      [](const Class& c, nb::handle name, nb::handle bf16) -> nb::object {
        const std::string n = read_string(name, c.op, "name");
        Array a = read(c.opened().view(n), n, read_string(bf16, c.op, "bf16"), c.op);
        const bool packed = a.dtype == DType::U16 && a.shape.size() == 2;
        nb::object array = nb::cast(std::move(a));
        return packed ? nb::module_::import_("isobit.lowbit").attr("BF16Weight")(array) : array;
      },
      "name"_a.none(), "bf16"_a.none() = "widen",
      nb::sig("def read(self, name: str, bf16: str = 'widen') -> typing.Any"),
      "A tensor as an Array of its own: F32, I32 and I64 as they are, F16 and BF16 widened exactly to "
      "float32; bf16='bits'\n"
      "gives BF16 as u2, a matrix as a lowbit.BF16Weight. TypeError for other dtypes, ValueError when there "
      "is none of that name.");
  cls.def(
      "close", [](Class& c) { c.source.reset(); }, "Lets go of the file. Arrays that were read stay valid.");
  cls.def(
      "__enter__",
      [](nb::handle h) {
        nb::cast<const Class&>(h).opened();
        return nb::borrow(h);
      },
      nb::sig(("def __enter__(self) -> " + self).c_str()));
  cls.def(
      "__exit__", [](Class& c, nb::args) { c.source.reset(); },
      nb::sig("def __exit__(self, *exception: typing.Any) -> None"));
  return cls;
}

DType parse_file_dtype(const std::string& name) {
  for (DType d : {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::U8, DType::I16,
                  DType::U16, DType::I32, DType::U32, DType::I64, DType::U64, DType::BOOL}) {
    if (name == dtype_name(d)) return d;
  }
  throw ValueError(
      message("write_safetensors", "dtype", "a safetensors dtype such as 'F32'", "'" + name + "'"));
}

// (dtype, shape, bytes) or an array-like.
StridedView read_entry(const std::string& name, nb::handle value) {
  const std::string argument = "'" + name + "'";
  if (!PyTuple_Check(value.ptr()))
    return made_contiguous(require_array(value, "write_safetensors", argument));
  if (PyTuple_Size(value.ptr()) != 3)
    throw ValueError(message("write_safetensors", argument, "(dtype, shape, bytes)",
                             std::to_string(PyTuple_Size(value.ptr())) + " items"));
  StridedView bytes = made_contiguous(require_array(value[2], "write_safetensors", argument));
  const int64_t given = bytes.size() * itemsize(bytes.dtype);
  bytes.dtype = parse_file_dtype(read_string(value[0], "write_safetensors", argument + " dtype"));
  bytes.shape.clear();
  for (nb::handle extent : nb::iter(value[1]))
    bytes.shape.push_back(read_int(extent, "write_safetensors", argument + " shape"));
  const int64_t needed = checked_size(bytes.shape, itemsize(bytes.dtype)) * itemsize(bytes.dtype);
  if (needed != given)
    throw ValueError(
        message("write_safetensors", argument, std::to_string(needed) + " bytes", std::to_string(given)));
  return bytes;
}

// A dict's items at one moment: reading a value can run code that changes the dict.
nb::list items_of(nb::handle object, const char* argument, const char* expected) {
  if (!PyDict_Check(object.ptr()))
    throw TypeError(message("write_safetensors", argument, expected, class_name(object)));
  return nb::steal<nb::list>(PyDict_Items(object.ptr()));
}

void write(nb::handle path_object, nb::handle tensors, nb::handle metadata_object) {
  constexpr const char* kOp = "write_safetensors";
  const std::filesystem::path path = read_path(path_object, kOp, "path");
  std::map<std::string, TensorView> views;
  std::vector<StridedView> keep;
  for (nb::handle item : items_of(tensors, "tensors", "a dict of tensors by name")) {
    const std::string name = read_string(item[0], kOp, "name");
    keep.push_back(read_entry(name, item[1]));
    views[name] = TensorView{keep.back().dtype, keep.back().shape, keep.back().data};
  }
  std::map<std::string, std::string> metadata;
  if (!metadata_object.is_none()) {
    for (nb::handle item : items_of(metadata_object, "metadata", "None or a dict of strings"))
      metadata[read_string(item[0], kOp, "metadata key")] = read_string(item[1], kOp, "metadata value");
  }
  nb::gil_scoped_release release;
  write_safetensors(path, views, metadata);
}

}  // namespace

void bind_checkpoint(nb::module_& m) {
  nb::class_<TensorInfo>(m, "TensorInfo", "Where a tensor lies in a file.")
      .def_ro("name", &TensorInfo::name)
      .def_ro("dtype", &TensorInfo::dtype, "As spelled in the file.")
      .def_prop_ro(
          "shape", [](const TensorInfo& t) { return nb::tuple(nb::cast(t.shape)); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_ro("begin", &TensorInfo::begin, "First byte in the data section.")
      .def_ro("end", &TensorInfo::end)
      .def_ro("file", &TensorInfo::file)
      .def_prop_ro("nbytes", [](const TensorInfo& t) { return t.end - t.begin; })
      .def_prop_ro("size", [](const TensorInfo& t) { return checked_size(t.shape, 1); })
      .def("__repr__", [](const TensorInfo& t) {
        return "TensorInfo(name='" + t.name + "', dtype='" + t.dtype + "', shape=" + shape_text(t.shape) +
               ")";
      });

  using File = Closable<SafetensorsFile>;
  bind_source<SafetensorsFile>(m, "SafetensorsFile",
                               "One safetensors file, mapped and checked. ValueError when it is malformed, "
                               "FileNotFoundError when missing.\n"
                               "A read of a file that has become shorter since is refused (ValueError); one "
                               "cut while it is being read\nends the process, as with every mapped file.")
      .def(
          "__init__",
          [](File* self, nb::handle path) {
            new (self) File{SafetensorsFile(read_path(path, "SafetensorsFile", "path")), "SafetensorsFile"};
          },
          "path"_a.none(), nb::sig("def __init__(self, path: str | os.PathLike[str]) -> None"))
      .def_prop_ro(
          "metadata", [](const File& f) { return f.opened().metadata(); },
          "The strings of the header's __metadata__.");

  using Directory = Closable<Checkpoint>;
  bind_source<Checkpoint>(m, "Checkpoint",
                          "A checkpoint: one safetensors file, or a directory with an index, "
                          "model.safetensors or a single *.safetensors.")
      .def_static(
          "open",
          [](nb::handle path) {
            return Directory{Checkpoint::open(read_path(path, "Checkpoint", "path")), "Checkpoint"};
          },
          "path"_a.none(), nb::sig("def open(path: str | os.PathLike[str]) -> Checkpoint"),
          "ValueError for a malformed file or index, FileNotFoundError naming what is missing.")
      .def(
          "block_type",
          [](const Directory& d, nb::handle name) -> nb::object {
            const BlockType type = d.opened().block_type(read_string(name, d.op, "name"));
            return type == BlockType::kNone ? nb::none() : nb::cast(to_string(type));
          },
          "name"_a.none(), nb::sig("def block_type(self, name: str) -> str | None"),
          "\"Q8_0\", \"Q4_0\" or \"Q4_1\" where a tensor holds such blocks (isobit convert "
          "--keep-quantized).");

  m.def("write_safetensors", write, "path"_a.none(), "tensors"_a.none(), "metadata"_a.none() = nb::none(),
        nb::sig("def write_safetensors(path: str | os.PathLike[str], tensors: dict[str, typing.Any], "
                "metadata: dict[str, str] | None = None) -> None"),
        "Writes {name: (dtype, shape, bytes)} or {name: array} with sorted names, atomically: a file that "
        "is there is replaced\n"
        "and keeps its mode, a symbolic link its target. ValueError where the bytes do not match dtype and "
        "shape, and for a path\nwhere something other than a regular file lies.");
}

}  // namespace isobit::python
