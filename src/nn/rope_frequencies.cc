// SPDX-License-Identifier: Apache-2.0
// inv_freq[i] = 1 / theta^(2i/rope_dim), then linear, llama3, yarn or longrope scaling. Each function follows
// the order and the roundings of transformers' modeling_rope_utils.py at float32; `float` below is one
// float32 rounding an operation, `double` what Python computes in binary64.
#include "nn/rope_frequencies.h"

#include <algorithm>
#include <cmath>

#include "core/binary64.h"

namespace isobit {
namespace {

constexpr double kPi = 0x1.921fb54442d18p+1;

float to_float(double x) { return static_cast<float>(x); }

double as_option(const std::optional<double>& x, double otherwise) {
  return x && *x != 0.0 ? static_cast<double>(to_float(*x)) : otherwise;
}

// theta^(2i/dim)
std::vector<float> position_periods(int64_t dim, double theta) {
  std::vector<float> p(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < p.size(); i++) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    p[i] = to_float(binary64::pow(to_float(theta), exponent));
  }
  return p;
}

// factor, or how far max_positions goes past the original range.
double stretch(const RopeScaling& s, int64_t max_positions) {
  const double ratio =
      static_cast<double>(max_positions) / static_cast<double>(s.original_max_position_embeddings);
  return to_float(s.factor ? *s.factor : ratio);
}

void scale_llama3(const RopeScaling& s, std::vector<float>& inv) {
  const float factor = to_float(*s.factor);
  const float low = to_float(*s.low_freq_factor);
  const float high = to_float(*s.high_freq_factor);
  const double original = static_cast<double>(s.original_max_position_embeddings);
  const float low_wavelength = to_float(original / low);
  const float high_wavelength = to_float(original / high);
  for (float& f : inv) {
    const float wavelength = (1.0f / f) * to_float(2 * kPi);
    if (wavelength > low_wavelength) {
      f = f / factor;
    } else if (!(wavelength < high_wavelength)) {
      const float t = ((1.0f / wavelength) * to_float(original) - low) / (high - low);
      f = ((1.0f - t) * f) / factor + t * f;
    }
  }
}

double floor_double(double x) {
  if (!(x > -0x1p52 && x < 0x1p52)) return x;
  const double whole = static_cast<double>(static_cast<int64_t>(x));
  return whole > x ? whole - 1.0 : whole;
}

double magnitude_scale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * binary64::log(factor) + 1.0;
}

RopeFrequencies yarn(const RopeScaling& s, double theta, int64_t max_positions,
                     const std::vector<float>& periods) {
  const double dim = 2.0 * static_cast<double>(periods.size());
  const double factor = stretch(s, max_positions);
  // The column whose angle turns `rotations` times over the original range.
  const auto column = [&](double rotations) {
    const double turns = static_cast<double>(s.original_max_position_embeddings) / (rotations * 2 * kPi);
    return dim * binary64::log(turns) / (2 * binary64::log(to_float(theta)));
  };
  double low = column(as_option(s.beta_fast, 32.0));
  double high = column(as_option(s.beta_slow, 1.0));
  if (s.truncate) {
    low = floor_double(low);
    high = -floor_double(-high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;

  RopeFrequencies result;
  for (size_t i = 0; i < periods.size(); i++) {
    const float position = (static_cast<float>(i) - to_float(low)) / to_float(high - low);
    const float keep = 1.0f - std::clamp(position, 0.0f, 1.0f);
    const float interpolated = 1.0f / (to_float(factor) * periods[i]);
    const float extrapolated = 1.0f / periods[i];
    result.inv_freq.push_back(interpolated * (1.0f - keep) + extrapolated * keep);
  }
  const double mscale = as_option(s.mscale, 0.0);
  const double mscale_all_dim = as_option(s.mscale_all_dim, 0.0);
  if (s.attention_factor) {
    result.attention_factor = to_float(*s.attention_factor);
  } else if (mscale != 0.0 && mscale_all_dim != 0.0) {
    result.attention_factor =
        to_float(magnitude_scale(factor, mscale) / magnitude_scale(factor, mscale_all_dim));
  } else {
    result.attention_factor = to_float(magnitude_scale(factor, 1.0));
  }
  return result;
}

RopeFrequencies longrope(const RopeScaling& s, int64_t max_positions, const std::vector<float>& periods) {
  const bool beyond = max_positions > s.original_max_position_embeddings;
  const std::vector<double>& factors = beyond ? s.long_factor : s.short_factor;
  RopeFrequencies result;
  for (size_t i = 0; i < periods.size(); i++) {
    result.inv_freq.push_back(1.0f / (to_float(factors[i]) * periods[i]));
  }
  const double factor = stretch(s, max_positions);
  if (s.attention_factor) {
    result.attention_factor = to_float(*s.attention_factor);
  } else if (factor > 1.0) {
    const double original = static_cast<double>(s.original_max_position_embeddings);
    result.attention_factor = to_float(std::sqrt(1 + binary64::log(factor) / binary64::log(original)));
  }
  return result;
}

}  // namespace

RopeFrequencies rope_frequencies(int64_t rope_dim, double rope_theta,
                                 const std::optional<RopeScaling>& scaling, int64_t max_positions) {
  const std::vector<float> periods = position_periods(rope_dim, rope_theta);
  if (scaling && scaling->type == RopeType::kYarn) return yarn(*scaling, rope_theta, max_positions, periods);
  if (scaling && scaling->type == RopeType::kLongRope) return longrope(*scaling, max_positions, periods);
  RopeFrequencies result;
  for (const float p : periods) result.inv_freq.push_back(1.0f / p);
  if (scaling && scaling->type == RopeType::kLlama3) scale_llama3(*scaling, result.inv_freq);
  if (scaling && scaling->type == RopeType::kLinear) {
    for (float& f : result.inv_freq) f = f / to_float(*scaling->factor);
  }
  return result;
}

}  // namespace isobit
