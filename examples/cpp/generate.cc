// SPDX-License-Identifier: Apache-2.0
// Loads a checkpoint directory, continues a prompt of token ids greedily and prints the ids with a
// fingerprint of every logit on the way: equal fingerprints mean equal bits.
//
//   generate FOLDER NEW_TOKENS ID [ID]...

#include <isobit/causal_lm.h>
#include <isobit/error.h>
#include <isobit/runtime.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace {

/// FNV-1a over the bytes of `values`, continuing from `hash`.
uint64_t fingerprint(uint64_t hash, std::span<const float> values) {
  for (const float value : values) {
    unsigned char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  }
  return hash;
}

/// The whole of `text` as a number.
int64_t number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw isobit::ValueError("[generate] arguments: expected a whole number, got " + text);
  return value;
}

int run(const std::vector<std::string>& arguments) {
  const int64_t new_tokens = number(arguments[1]);
  std::vector<int64_t> prompt;
  for (size_t i = 2; i < arguments.size(); ++i) prompt.push_back(number(arguments[i]));
  const isobit::CausalLM model = isobit::CausalLM::load(arguments[0]);

  uint64_t hash = 0xcbf29ce484222325u;
  const auto on_token = [&](int64_t, std::span<const int32_t> ids, std::span<const float> logits) {
    std::cout << ids[0] << ' ' << std::flush;
    hash = fingerprint(hash, logits);
    return true;
  };
  model.generate(prompt, 1, static_cast<int64_t>(prompt.size()), new_tokens, on_token);
  std::cout << "\nfingerprint " << std::hex << hash << " (" << isobit::active_isa() << ")\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: generate FOLDER NEW_TOKENS ID [ID]...\n";
    return 2;
  }
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {  // isobit::Error, or too little memory
    std::cerr << error.what() << '\n';
    return 1;
  }
}
