// SPDX-License-Identifier: Apache-2.0
// The compiled half of isobit.Mamba1Block, Mamba2Block and Mamba3Block. Keywords, modes and pickling are in
// python/isobit/mamba.py.
#include "mamba.h"

#include <nanobind/stl/string.h>

#include "errors.h"
#include "ids.h"
#include "input.h"
#include "instance.h"
#include "isobit/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

MambaOptions read_version_options(int version, const nb::dict& d, const std::string& op) {
  const auto number = [&](const char* key) { return read_double(d[key], op, key); };
  const auto flag = [&](const char* key) { return read_bool(d[key], op, key); };
  if (version == 1)
    return Mamba1Options{.norm_eps = number("norm_eps"),
                         .inner_norm = flag("inner_norm"),
                         .inner_norm_eps = number("inner_norm_eps")};
  if (version == 2) {
    nb::object limit = d["dt_limit"];
    if (!PySequence_Check(limit.ptr()) || nb::len(limit) != 2)
      throw ValueError(message(op, "dt_limit", "a pair of numbers", class_name(limit)));
    return Mamba2Options{.norm_eps = number("norm_eps"),
                         .gated_norm_eps = number("gated_norm_eps"),
                         .n_groups = read_int(d["n_groups"], op, "n_groups"),
                         .dt_min = read_double(nb::object(limit[0]), op, "dt_limit"),
                         .dt_max = read_double(nb::object(limit[1]), op, "dt_limit"),
                         .norm_before_gate = flag("norm_before_gate"),
                         .grouped_norm = flag("grouped_norm")};
  }
  const std::string a = read_string(d["a_function"], op, "a_function");
  if (a != "heavy_tail" && a != "softplus")
    throw ValueError(message(op, "a_function", "'heavy_tail' or 'softplus'", "'" + a + "'"));
  return Mamba3Options{.norm_eps = number("norm_eps"),
                       .rope_fraction = number("rope_fraction"),
                       .heavy_tail = a == "heavy_tail",
                       .a_floor = number("a_floor")};
}

MambaOptions read_options(int version, const nb::dict& d, const std::string& op) {
  MambaOptions options = read_version_options(version, d, op);
  if (d.contains("weight_format"))
    set_weight_format(options, parse_weight_format(read_string(d["weight_format"], op, "weight_format")));
  return options;
}

nb::dict sizes(const isobit::MambaBlock& block) {
  const MambaShape& s = block.shape();
  nb::dict d;
  for (const auto& [name, value] : {std::pair{"d_model", block.d_model()},
                                    {"d_inner", s.channels},
                                    {"d_state", s.states},
                                    {"d_conv", s.conv_width},
                                    {"n_heads", s.heads},
                                    {"head_dim", s.head_dim},
                                    {"mimo_rank", s.rank},
                                    {"n_angles", s.angles}})
    d[name] = value;
  return d;
}

std::shared_ptr<const isobit::MambaBlock> build(nb::handle weights, int64_t version,
                                                const nb::dict& options) {
  const std::string op = "Mamba" + std::to_string(version) + "Block";
  const MambaOptions parsed = read_options(static_cast<int>(version), options, op);
  const Weights read = read_weights(weights, op);
  nb::gil_scoped_release release;
  return std::make_shared<const isobit::MambaBlock>(read.map, parsed);
}

}  // namespace

nb::dict mamba_options_dict(const MambaOptions& options) {
  nb::dict d;
  if (const auto* one = std::get_if<Mamba1Options>(&options)) {
    d["norm_eps"] = one->norm_eps;
    d["inner_norm"] = one->inner_norm;
    d["inner_norm_eps"] = one->inner_norm_eps;
  } else if (const auto* two = std::get_if<Mamba2Options>(&options)) {
    d["norm_eps"] = two->norm_eps;
    d["gated_norm_eps"] = two->gated_norm_eps;
    d["n_groups"] = two->n_groups;
    d["dt_limit"] = nb::make_tuple(two->dt_min, two->dt_max);
    d["norm_before_gate"] = two->norm_before_gate;
    d["grouped_norm"] = two->grouped_norm;
  } else {
    const auto& three = std::get<Mamba3Options>(options);
    d["norm_eps"] = three.norm_eps;
    d["rope_fraction"] = three.rope_fraction;
    d["a_function"] = three.heavy_tail ? "heavy_tail" : "softplus";
    d["a_floor"] = three.a_floor;
  }
  return d;
}

void bind_mamba(nb::module_& m) {
  nb::class_<MambaObject> cls(m, "MambaBlock", nb::type_slots(kNamesReadOnly),
                              "The compiled half of the Mamba blocks.");
  cls.def(
      "__init__",
      [](MambaObject* self, nb::handle weights, int64_t version, const nb::dict& options) {
        new (self) MambaObject{build(weights, version, options)};
      },
      "weights"_a.none(), "version"_a, "options"_a,
      nb::sig("def __init__(self, weights: collections.abc.Mapping[str, typing.Any], version: int, options: "
              "dict[str, typing.Any]) -> None"));
  bind_block<isobit::MambaBlock>(
      cls, "MambaBlock", "MambaState",
      "x: (B, L, d_model) float32 -> hidden states of the same shape. With a state the tokens continue it; "
      "without, they\n"
      "begin. lengths: B integers in 1..L; outputs past a row's length are +0, a row's state ends at its own "
      "length, and\n"
      "all else equals the row alone, bit for bit. TypeError for another dtype, ValueError for a wrong "
      "shape, a state that\n"
      "does not fit or non-finite values, all before any work.");
  cls.def(
      "allocate_state",
      [](const MambaObject& self, nb::handle batch_size) {
        const std::string op = BlockKind<isobit::MambaBlock>::op(*self.impl);
        auto core = std::make_shared<MambaCore>();
        core->impl = std::make_shared<isobit::MambaState>(
            self.impl->allocate_state(read_int(batch_size, op, "batch_size")));
        return wrap_mamba_state(std::move(core));
      },
      "batch_size"_a.none(), nb::sig("def allocate_state(self, batch_size: int) -> typing.Any"),
      "A state of zeros.");
  cls.def(
      "_options", [](const MambaObject& self) { return mamba_options_dict(self.impl->options()); },
      nb::sig("def _options(self) -> dict[str, typing.Any]"));
  cls.def(
      "_sizes", [](const MambaObject& self) { return sizes(*self.impl); },
      nb::sig("def _sizes(self) -> dict[str, int]"));
  cls.def_prop_ro(
      "weight_format",
      [](const MambaObject& self) { return to_string(weight_format_of(self.impl->options())); },
      "In which format the projections are kept.");
  cls.def_prop_ro("_version", [](const MambaObject& self) { return self.impl->version(); });
}

}  // namespace isobit::python
