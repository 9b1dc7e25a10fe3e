// SPDX-License-Identifier: Apache-2.0
// SHA-256 against the vectors of NIST (FIPS 180-4 examples) and against itself cut into pieces.
#include "core/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace isobit {
namespace {

std::string digest(const std::string& text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex();
}

TEST(Sha256, NistVectors) {
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(
      digest(
          "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
          "mnopqrstnopqrstu"),
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(digest(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesEqualTheWhole) {
  std::string text;
  for (int i = 0; i < 300; i++) text += static_cast<char>(7 * i);
  for (size_t length = 0; length <= text.size(); length++) {
    Sha256 hash;
    const size_t cut = length / 3;
    hash.update(text.data(), cut);
    EXPECT_EQ(hash.hex(), digest(text.substr(0, cut)));  // asking does not end the stream
    hash.update(text.data() + cut, length - cut);
    EXPECT_EQ(hash.hex(), digest(text.substr(0, length))) << length;
  }
}

}  // namespace
}  // namespace isobit
