// SPDX-License-Identifier: Apache-2.0
#include "model/synthetic_mamba.h"

namespace isobit::synthetic {

Weights MambaCase::weights() const {
  Weights w;
  const int64_t channels = heads * head_dim;
  const auto add = [&](const char* key, std::vector<int64_t> shape, float scale, float centre = 0.0f) {
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent;
    uint64_t own = seed * 977;
    for (const char* c = key; *c; ++c) own = hash(own, static_cast<uint64_t>(*c));
    std::vector<float> x = values(own, n, scale);
    for (float& v : x) v = v + centre;
    w.store.push_back(std::move(x));
    w.map[key] = {DType::F32, std::move(shape), reinterpret_cast<const std::byte*>(w.store.back().data())};
  };
  w.store.reserve(32);
  add(version() == 1 ? "norm.weight" : "block_norm.weight", {d_model}, 0.5f, 1.0f);
  add("D", {version() == 1 ? channels : heads}, 1.0f);
  add("out_proj.weight", {d_model, channels}, 0.3f);
  if (biases) add("out_proj.bias", {d_model}, 0.5f);
  if (version() == 1) {
    const int64_t step = 5;
    add("in_proj.weight", {2 * channels, d_model}, 0.5f);
    if (biases) add("in_proj.bias", {2 * channels}, 0.5f);
    add("conv1d.weight", {channels, 1, width}, 0.7f);
    if (biases) add("conv1d.bias", {channels}, 0.5f);
    add("x_proj.weight", {step + 2 * states, channels}, 0.4f);
    add("dt_proj.weight", {channels, step}, 0.5f);
    add("dt_proj.bias", {channels}, 2.0f, -2.0f);
    add("A_log", {channels, states}, 1.5f);
  } else if (version() == 2) {
    const int64_t conv = channels + 2 * groups * states;
    add("in_proj.weight", {channels + conv + heads, d_model}, 0.5f);
    if (biases) add("in_proj.bias", {channels + conv + heads}, 0.5f);
    add("conv1d.weight", {conv, width}, 0.7f);
    if (biases) add("conv1d.bias", {conv}, 0.5f);
    add("dt_bias", {heads}, 2.0f, -2.0f);
    add("A_log", {heads}, 1.5f);
    if (norm) add("norm.weight", {channels}, 0.5f, 1.0f);
  } else {
    const int64_t angles =
        static_cast<int64_t>(static_cast<double>(states) * std::get<Mamba3Options>(options).rope_fraction) /
        2;
    add("in_proj.weight", {2 * channels + 2 * rank * groups * states + 3 * heads + angles, d_model}, 0.5f);
    add("dt_bias", {heads}, 2.0f, -2.0f);
    add("B_norm.weight", {states}, 0.5f, 1.0f);
    add("C_norm.weight", {states}, 0.5f, 1.0f);
    const std::vector<int64_t> bias =
        mimo ? std::vector<int64_t>{heads, rank, states} : std::vector<int64_t>{heads, states};
    add("B_bias", bias, 1.0f);
    add("C_bias", bias, 1.0f);
    if (!norm) add("norm.weight", {channels}, 0.5f, 1.0f);  // the default of version 3 has none
    if (mimo)
      for (const char* key : {"mimo_x", "mimo_z", "mimo_o"}) add(key, {heads, rank, head_dim}, 1.0f);
  }
  return w;
}

std::vector<MambaCase> mamba_cases() {
  std::vector<MambaCase> cases;
  const auto add = [&](const char* name, MambaOptions options, auto change) {
    MambaCase c;
    c.name = name;
    c.options = options;
    change(c);
    cases.push_back(std::move(c));
  };
  const auto as_is = [](MambaCase&) {};
  add("mamba1", Mamba1Options{}, as_is);
  add("mamba1_biases", Mamba1Options{}, [](MambaCase& c) { c.biases = true, c.width = 3, c.states = 16; });
  add("mamba1_inner_norm", Mamba1Options{.inner_norm = true},
      [](MambaCase& c) { c.heads = 1, c.head_dim = 70; });
  add("mamba2", Mamba2Options{}, [](MambaCase& c) { c.head_dim = 64, c.states = 16; });
  add("mamba2_groups", Mamba2Options{.n_groups = 2}, [](MambaCase& c) { c.heads = 4, c.biases = true; });
  add("mamba2_whole_norm", Mamba2Options{.n_groups = 2, .dt_min = 0.1, .dt_max = 0.5, .grouped_norm = false},
      [](MambaCase& c) { c.heads = 2; });
  add("mamba2_norm_first", Mamba2Options{.norm_before_gate = true}, [](MambaCase& c) { c.head_dim = 80; });
  add("mamba2_no_norm", Mamba2Options{}, [](MambaCase& c) { c.norm = false, c.width = 1; });
  add("mamba3", Mamba3Options{}, [](MambaCase& c) { c.head_dim = 64, c.states = 16; });
  add("mamba3_full_rope", Mamba3Options{.rope_fraction = 1.0, .heavy_tail = false},
      [](MambaCase& c) { c.groups = 3, c.states = 34; });
  add("mamba3_output_norm", Mamba3Options{}, [](MambaCase& c) { c.norm = false; });
  add("mamba3_mimo", Mamba3Options{}, [](MambaCase& c) { c.mimo = true, c.rank = 4, c.head_dim = 64; });
  add("mamba3_mimo_norm", Mamba3Options{.rope_fraction = 1.0},
      [](MambaCase& c) { c.mimo = true, c.rank = 2, c.norm = false, c.heads = 2, c.groups = 2; });
  for (const WeightFormat format : {WeightFormat::kBfloat16, WeightFormat::kInt8})
    for (MambaOptions options :
         {MambaOptions(Mamba1Options{}), MambaOptions(Mamba2Options{}), MambaOptions(Mamba3Options{})}) {
      set_weight_format(options, format);
      const std::string name = "mamba" + std::to_string(options.index() + 1) + "_" + to_string(format);
      add(name.c_str(), options, as_is);
    }
  return cases;
}

}  // namespace isobit::synthetic
