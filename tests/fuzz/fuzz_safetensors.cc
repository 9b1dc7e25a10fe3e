// SPDX-License-Identifier: Apache-2.0
// Any bytes are a safetensors file whose every readable tensor lies in them, or a ValueError.
#include <cstdlib>
#include <span>

#include "checkpoint/safetensors_header.h"
#include "isobit/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  try {
    const isobit::SafetensorsHeader header = isobit::parse_safetensors_header(file, "[Fuzz]");
    unsigned sum = 0;
    for (const auto& [name, info] : header.tensors) {
      const auto dtype = isobit::parse_dtype(info.dtype);
      if (!dtype) continue;
      const isobit::TensorView view{*dtype, info.shape, file.data() + header.data_begin + info.begin};
      if (view.size() * isobit::itemsize(*dtype) != info.end - info.begin) std::abort();
      for (int64_t i = 0; i < info.end - info.begin; ++i) sum += static_cast<unsigned>(view.data[i]);
    }
    // The sum is used, so that no read above is optimised away.
    static volatile unsigned sink;
    sink = sum;
  } catch (const isobit::ValueError&) {
  }
  return 0;
}
