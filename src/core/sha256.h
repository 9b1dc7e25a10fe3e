// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) of a stream of bytes: the digests of results and files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace isobit {

class Sha256 {
 public:
  void update(const void* data, size_t size);
  /// 64 lower-case hexadecimal digits for everything given so far; more may follow.
  std::string hex() const;

 private:
  void compress(const unsigned char* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> buffer_{};
  uint64_t size_ = 0;  // bytes so far
};

}  // namespace isobit
