// SPDX-License-Identifier: Apache-2.0
// Constructor keywords of a block <-> TransformerOptions. Whether values go together is the library's to say.
#include "options.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "errors.h"
#include "ids.h"
#include "input.h"
#include "isobit/error.h"

namespace nb = nanobind;

namespace isobit::python {
namespace {

constexpr const char* kOp = "TransformerBlock";

std::string scaling_argument(const std::string& key) { return "rope_scaling['" + key + "']"; }

std::vector<double> read_factors(nb::handle value, const std::string& key) {
  if (!PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr()))
    throw TypeError(message(kOp, scaling_argument(key), "a list of numbers", class_name(value)));
  std::vector<double> factors;
  for (nb::handle v : nb::iter(value)) factors.push_back(read_double(v, kOp, scaling_argument(key)));
  return factors;
}

struct ScalingNumber {
  const char* key;
  std::optional<double> RopeScaling::*field;
};
constexpr ScalingNumber kScalingNumbers[] = {
    {"factor", &RopeScaling::factor},
    {"low_freq_factor", &RopeScaling::low_freq_factor},
    {"high_freq_factor", &RopeScaling::high_freq_factor},
    {"attention_factor", &RopeScaling::attention_factor},
    {"beta_fast", &RopeScaling::beta_fast},
    {"beta_slow", &RopeScaling::beta_slow},
    {"mscale", &RopeScaling::mscale},
    {"mscale_all_dim", &RopeScaling::mscale_all_dim},
};

bool read_scaling_field(RopeScaling& scaling, const std::string& key, nb::handle value) {
  if (key == "original_max_position_embeddings") {
    scaling.original_max_position_embeddings = read_int(value, kOp, scaling_argument(key));
  } else if (key == "truncate") {
    scaling.truncate = read_bool(value, kOp, scaling_argument(key));
  } else if (key == "short_factor") {
    scaling.short_factor = read_factors(value, key);
  } else if (key == "long_factor") {
    scaling.long_factor = read_factors(value, key);
  } else {
    for (const ScalingNumber& number : kScalingNumbers) {
      if (key != number.key) continue;
      scaling.*number.field = read_double(value, kOp, scaling_argument(key));
      return true;
    }
    return false;
  }
  return true;
}

// {"rope_type": ..., ...}; the older key "type" is read where "rope_type" is absent. "default" means no
// scaling.
std::optional<RopeScaling> read_scaling(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  if (!PyDict_Check(object.ptr()))
    throw TypeError(message(kOp, "rope_scaling", "None or a dict", class_name(object)));
  const nb::dict dict = nb::borrow<nb::dict>(object);
  const char* type_key = dict.contains("rope_type") ? "rope_type" : "type";
  if (!dict.contains(type_key))
    throw ValueError(message(kOp, "rope_scaling", "a key 'rope_type' (or 'type')", "none"));
  const std::string type = read_string(dict[type_key], kOp, scaling_argument(type_key));
  if (type == "default") return std::nullopt;
  RopeScaling scaling;
  scaling.type = parse_rope_type(type);
  for (const auto& [k, value] : dict) {
    const std::string key = read_string(k, kOp, "rope_scaling key");
    if (key == "type" || key == "rope_type" || value.is_none()) continue;
    if (!read_scaling_field(scaling, key, value))
      throw ValueError(message(kOp, "rope_scaling", "known keys", "'" + key + "'"));
  }
  return scaling;
}

nb::object scaling_dict(const std::optional<RopeScaling>& scaling) {
  if (!scaling) return nb::none();
  nb::dict d;
  d["rope_type"] = to_string(scaling->type);
  for (const ScalingNumber& number : kScalingNumbers) {
    if (const auto& value = (*scaling).*number.field) d[number.key] = *value;
  }
  if (!scaling->truncate) d["truncate"] = false;
  if (!scaling->short_factor.empty()) d["short_factor"] = scaling->short_factor;
  if (!scaling->long_factor.empty()) d["long_factor"] = scaling->long_factor;
  if (scaling->original_max_position_embeddings != 0)
    d["original_max_position_embeddings"] = scaling->original_max_position_embeddings;
  return d;
}

std::optional<int64_t> read_optional_int(nb::handle value, const char* key) {
  if (value.is_none()) return std::nullopt;
  return read_int(value, kOp, key);
}

}  // namespace

TransformerOptions read_options(const nb::dict& keywords) {
  TransformerOptions o;
  for (const auto& [k, value] : keywords) {
    const std::string name = nb::cast<std::string>(k);
    const char* key = name.c_str();
    if (name == "n_heads")
      o.n_heads = read_int(value, kOp, key);
    else if (name == "n_kv_heads")
      o.n_kv_heads = read_optional_int(value, key);
    else if (name == "head_dim")
      o.head_dim = read_optional_int(value, key);
    else if (name == "window")
      o.window = read_int(value, kOp, key);
    else if (name == "rope_theta")
      o.rope_theta = read_double(value, kOp, key);
    else if (name == "rope_scaling")
      o.rope_scaling = read_scaling(value);
    else if (name == "rope_dim")
      o.rope_dim = read_optional_int(value, key);
    else if (name == "max_positions")
      o.max_positions = read_int(value, kOp, key);
    else if (name == "qkv_bias")
      o.qkv_bias = read_bool(value, kOp, key);
    else if (name == "o_bias")
      o.o_bias = read_bool(value, kOp, key);
    else if (name == "norm")
      o.norm = parse_norm(read_string(value, kOp, key));
    else if (name == "norm_eps")
      o.norm_eps = read_double(value, kOp, key);
    else if (name == "norm_bias")
      o.norm_bias = read_bool(value, kOp, key);
    else if (name == "mlp")
      o.mlp = parse_mlp(read_string(value, kOp, key));
    else if (name == "mlp_bias")
      o.mlp_bias = read_bool(value, kOp, key);
    else if (name == "qk_norm")
      o.qk_norm = read_bool(value, kOp, key);
    else if (name == "attn_softcap")
      o.attn_softcap = value.is_none() ? std::nullopt : std::optional(read_double(value, kOp, key));
    else if (name == "weight_format")
      o.weight_format = parse_weight_format(read_string(value, kOp, key));
    else if (name == "numeric_profile")
      o.numeric_profile = parse_numeric_profile(read_string(value, kOp, key));
    else
      throw TypeError(message(kOp, "options", "known keywords", "'" + name + "'"));
  }
  return o;
}

nb::dict options_dict(const TransformerOptions& o) {
  nb::dict d;
  d["n_heads"] = o.n_heads;
  d["n_kv_heads"] = o.n_kv_heads;
  d["head_dim"] = o.head_dim;
  d["window"] = o.window;
  d["rope_theta"] = o.rope_theta;
  d["rope_scaling"] = scaling_dict(o.rope_scaling);
  d["rope_dim"] = o.rope_dim;
  d["max_positions"] = o.max_positions;
  d["qkv_bias"] = o.qkv_bias;
  d["o_bias"] = o.o_bias;
  d["norm"] = to_string(o.norm);
  d["norm_eps"] = o.norm_eps;
  d["norm_bias"] = o.norm_bias;
  d["mlp"] = to_string(o.mlp);
  d["mlp_bias"] = o.mlp_bias;
  d["qk_norm"] = o.qk_norm;
  d["attn_softcap"] = o.attn_softcap;
  return d;
}

}  // namespace isobit::python
