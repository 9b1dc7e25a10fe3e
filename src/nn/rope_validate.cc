// SPDX-License-Identifier: Apache-2.0
// The rules for rotary options, checked before anything is computed from them.
#include <cmath>
#include <string>

#include "core/checked.h"
#include "nn/rope_frequencies.h"

namespace isobit {
namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& expected, const std::string& got) {
  throw ValueError("[TransformerBlock] " + option + ": expected " + expected + ", got " + got);
}

// What an option is worth is its float32 value.
bool finite(double x) { return std::isfinite(static_cast<float>(x)); }
bool positive(double x) { return finite(x) && static_cast<float>(x) > 0.0f; }

void need_positive(const std::string& option, const std::optional<double>& x) {
  if (!x) refuse(option, "a finite float32 number > 0", "nothing");
  if (!positive(*x)) refuse(option, "a finite float32 number > 0", number_text(*x));
}

void allow_positive(const std::string& option, const std::optional<double>& x) {
  if (x) need_positive(option, x);
}

// As in Hugging Face's configs, 0 stands for the default.
void allow_zero_or_positive(const std::string& option, const std::optional<double>& x) {
  if (x && !positive(*x) && *x != 0.0)
    refuse(option, "a finite float32 number >= 0 (0: the default)", number_text(*x));
}

void need_original(const RopeScaling& s) {
  if (s.original_max_position_embeddings > 0) return;
  const int64_t n = s.original_max_position_embeddings;
  refuse("rope_scaling.original_max_position_embeddings", "an integer > 0",
         n == 0 ? "0 or nothing" : std::to_string(n));
}

void need_factors(const std::string& option, const std::vector<double>& factors, int64_t length) {
  if (static_cast<int64_t>(factors.size()) != length) {
    refuse(option, std::to_string(length) + " numbers (rope_dim / 2)", std::to_string(factors.size()));
  }
  for (size_t i = 0; i < factors.size(); i++)
    need_positive(option + "[" + std::to_string(i) + "]", factors[i]);
}

void validate_scaling(const RopeScaling& s, int64_t rope_dim, double theta, int64_t max_positions) {
  switch (s.type) {
    case RopeType::kLinear:
      need_positive("rope_scaling.factor", s.factor);
      return;
    case RopeType::kLlama3:
      need_positive("rope_scaling.factor", s.factor);
      need_positive("rope_scaling.low_freq_factor", s.low_freq_factor);
      need_positive("rope_scaling.high_freq_factor", s.high_freq_factor);
      need_original(s);
      if (!(static_cast<float>(*s.high_freq_factor) > static_cast<float>(*s.low_freq_factor))) {
        refuse("rope_scaling.high_freq_factor",
               "more than low_freq_factor (" + number_text(*s.low_freq_factor) + ")",
               number_text(*s.high_freq_factor));
      }
      return;
    case RopeType::kYarn:
      allow_positive("rope_scaling.factor", s.factor);
      need_original(s);
      allow_zero_or_positive("rope_scaling.beta_fast", s.beta_fast);
      allow_zero_or_positive("rope_scaling.beta_slow", s.beta_slow);
      allow_zero_or_positive("rope_scaling.mscale", s.mscale);
      allow_zero_or_positive("rope_scaling.mscale_all_dim", s.mscale_all_dim);
      allow_positive("rope_scaling.attention_factor", s.attention_factor);
      if (!(static_cast<float>(theta) > 1.0f))
        refuse("rope_theta", "more than 1 with yarn scaling", number_text(theta));
      return;
    case RopeType::kLongRope:
      allow_positive("rope_scaling.factor", s.factor);
      need_original(s);
      need_factors("rope_scaling.short_factor", s.short_factor, rope_dim / 2);
      need_factors("rope_scaling.long_factor", s.long_factor, rope_dim / 2);
      allow_positive("rope_scaling.attention_factor", s.attention_factor);
      return;
    case RopeType::kDynamic:
      need_positive("rope_scaling.factor", s.factor);
      need_original(s);
      // Past the original range the frequencies would depend on the length of the whole sequence.
      if (max_positions > s.original_max_position_embeddings) {
        refuse("max_positions",
               "at most rope_scaling.original_max_position_embeddings (" +
                   std::to_string(s.original_max_position_embeddings) + ") with dynamic scaling",
               std::to_string(max_positions));
      }
      return;
  }
}

}  // namespace

void validate_rope(int64_t head_dim, int64_t rope_dim, double rope_theta,
                   const std::optional<RopeScaling>& scaling, int64_t max_positions) {
  if (rope_dim <= 0 || rope_dim % 2 != 0 || rope_dim > head_dim) {
    refuse("rope_dim", "an even number in 2..head_dim (" + std::to_string(head_dim) + ")",
           std::to_string(rope_dim));
  }
  if (max_positions <= 0) refuse("max_positions", "an integer > 0", std::to_string(max_positions));
  need_positive("rope_theta", rope_theta);
  if (scaling) validate_scaling(*scaling, rope_dim, rope_theta, max_positions);

  const RopeFrequencies f = rope_frequencies(rope_dim, rope_theta, scaling, max_positions);
  if (!positive(f.attention_factor)) {
    refuse("rope_scaling.attention_factor", "a finite float32 number > 0", number_text(f.attention_factor));
  }
  for (const float inv : f.inv_freq) {
    const float largest = static_cast<float>(max_positions - 1) * inv;
    if (!std::isfinite(inv) || !std::isfinite(largest)) {
      refuse("rope_theta", "rotation angles that float32 can hold",
             "inv_freq " + number_text(inv) + " at theta " + number_text(rope_theta));
    }
  }
}

}  // namespace isobit
