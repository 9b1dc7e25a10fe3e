// SPDX-License-Identifier: Apache-2.0
// Parses the header event by event, so that duplicate keys are seen and no tree of a hostile file is ever
// built.
#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoint/json.h"
#include "isobit/error.h"

namespace isobit {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the data section is little-endian and mapped as it is");

constexpr std::array kReadable = {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8,
                                  DType::U8,  DType::I16, DType::U16,  DType::I32, DType::U32,
                                  DType::I64, DType::U64, DType::BOOL};
/// Bits an element of the types that the format has and view() does not read.
constexpr std::array<std::pair<std::string_view, int64_t>, 9> kOtherBits{{
    {"F8_E5M2", 8},
    {"F8_E4M3", 8},
    {"F8_E8M0", 8},
    {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8},
    {"C64", 64},
    {"F4", 4},
    {"F6_E2M3", 6},
    {"F6_E3M2", 6},
}};

/// Bits of one element; 0 for a type that the format does not know.
int64_t bits_of(const std::string& dtype) {
  if (const auto readable = parse_dtype(dtype)) return 8 * itemsize(*readable);
  for (const auto& [name, bits] : kOtherBits)
    if (name == dtype) return bits;
  return 0;
}

class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(SafetensorsHeader& header, const std::string& where) : header_(header), where_(where) {}

  bool key(string_t& name) override {
    if (skipped_depth_ > 0) return true;
    key_ = name;
    const bool is_new = place_ == Place::kEntry      ? fields_.insert(name).second
                        : place_ == Place::kMetadata ? !header_.metadata.contains(name)
                        : name == kMetadataKey       ? !std::exchange(has_metadata_, true)
                                                     : !header_.tensors.contains(name);
    if (!is_new) refuse("every key once", "a duplicate key " + quote(name));
    return true;
  }

  bool start_object(std::size_t) override {
    if (skipping()) return enter_skipped();
    if (place_ == Place::kStart) {
      place_ = Place::kRoot;
    } else if (place_ == Place::kRoot) {
      place_ = key_ == kMetadataKey ? Place::kMetadata : Place::kEntry;
      info_ = TensorInfo{};
      info_.name = key_;
      fields_.clear();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (skipped_depth_ > 0) return leave_skipped();
    if (place_ == Place::kEntry) finish_entry();
    place_ = place_ == Place::kRoot ? Place::kDone : Place::kRoot;
    return true;
  }

  bool start_array(std::size_t) override {
    if (skipping()) return enter_skipped();
    if (place_ != Place::kEntry || key_ == "dtype") unexpected("an array");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    if (skipped_depth_ > 0) return leave_skipped();
    if (place_ == Place::kShape) {
      info_.shape = numbers_;
    } else {
      if (numbers_.size() != 2) refuse("data_offsets of two numbers", std::to_string(numbers_.size()));
      info_.begin = numbers_[0];
      info_.end = numbers_[1];
    }
    place_ = Place::kEntry;
    return true;
  }

  bool string(string_t& value) override {
    if (skipping()) return true;
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = value;
    } else if (place_ == Place::kEntry && key_ == "dtype") {
      info_.dtype = value;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (skipping()) return true;
    if (place_ != Place::kShape && place_ != Place::kOffsets) unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      refuse("numbers below 2^63", std::to_string(value));
    numbers_.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool number_integer(number_integer_t value) override {
    return other("the negative number " + std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return other("the number " + text.substr(0, 40));
  }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool null() override { return other("null"); }
  bool binary(binary_t&) override { return other("binary data"); }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    throw ValueError(where_ + ": header: expected UTF-8 JSON, got " + describe(error));
  }

 private:
  enum class Place { kStart, kRoot, kMetadata, kEntry, kShape, kOffsets, kDone };
  static constexpr const char* kMetadataKey = "__metadata__";

  [[noreturn]] void refuse(const std::string& expected, const std::string& got) const {
    const bool in_tensor = place_ == Place::kEntry || place_ == Place::kShape || place_ == Place::kOffsets;
    throw ValueError(where_ + ": " + (in_tensor ? "tensor " + quote(info_.name) : "header") + ": expected " +
                     expected + ", got " + got);
  }

  [[noreturn]] void unexpected(const std::string& got) const {
    switch (place_) {
      case Place::kStart:
      case Place::kDone:
        refuse("a JSON object", got);
      case Place::kRoot:
        refuse("an object for " + quote(key_), got);
      case Place::kMetadata:
        refuse("a string for the metadata " + quote(key_), got);
      case Place::kEntry:
        refuse(key_ == "dtype" ? "dtype as a string" : key_ + " as an array", got);
      case Place::kShape:
      case Place::kOffsets:
        refuse("non-negative integers in " + key_, got);
    }
    refuse("a header", got);
  }

  bool other(const std::string& got) const {
    if (!skipping()) unexpected(got);
    return true;
  }

  /// Inside, or at, the value of a field of an entry that the format does not know: ignored, as other readers
  /// do.
  bool skipping() const {
    return skipped_depth_ > 0 ||
           (place_ == Place::kEntry && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets");
  }
  bool enter_skipped() {
    if (++skipped_depth_ > kMaxJsonDepth) refuse("JSON nested at most 64 deep", "deeper nesting");
    return true;
  }
  bool leave_skipped() {
    --skipped_depth_;
    return true;
  }

  void finish_entry() {
    for (const char* field : {"dtype", "shape", "data_offsets"})
      if (!fields_.contains(field)) refuse(std::string("a field ") + field, "none");
    if (info_.end < info_.begin)
      refuse("data_offsets with begin <= end",
             std::to_string(info_.begin) + " and " + std::to_string(info_.end));
    int64_t bits = 1;
    bool fits = true;
    for (int64_t extent : info_.shape) fits = fits && !__builtin_mul_overflow(bits, extent, &bits);
    const int64_t element_bits = bits_of(info_.dtype);
    if (element_bits > 0) fits = fits && !__builtin_mul_overflow(bits, element_bits, &bits);
    if (!fits) refuse("a shape whose size fits 63 bits", "one that overflows");
    if (element_bits > 0 && bits % 8 != 0)
      refuse("a whole number of bytes", std::to_string(bits) + " bits of " + info_.dtype);
    if (element_bits > 0 && bits / 8 != info_.end - info_.begin)
      refuse(std::to_string(bits / 8) + " bytes of " + info_.dtype, std::to_string(info_.end - info_.begin));
    header_.tensors.emplace(info_.name, info_);
  }

  SafetensorsHeader& header_;
  const std::string& where_;
  Place place_ = Place::kStart;
  bool has_metadata_ = false;
  int skipped_depth_ = 0;
  std::string key_;
  std::set<std::string> fields_;  // of the open entry
  TensorInfo info_;
  std::vector<int64_t> numbers_;
};

/// The tensors, in order of their offsets, must cover the data section without overlap or hole.
void check_tiling(const SafetensorsHeader& header, int64_t data_size, const std::string& where) {
  std::vector<const TensorInfo*> in_order;
  for (const auto& [name, info] : header.tensors) {
    if (info.end > data_size)
      throw ValueError(where + ": tensor " + quote(name) + ": expected data inside the data section of " +
                       std::to_string(data_size) + " bytes, got an end at " + std::to_string(info.end) +
                       " (a truncated file?)");
    in_order.push_back(&info);
  }
  std::sort(in_order.begin(), in_order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::tie(a->begin, a->end) < std::tie(b->begin, b->end);
  });
  int64_t covered = 0;
  for (const TensorInfo* info : in_order) {
    if (info->begin != covered)
      throw ValueError(where + ": tensor " + quote(info->name) + ": expected data that begins at " +
                       std::to_string(covered) + ", got " + std::to_string(info->begin) +
                       (info->begin < covered ? " (an overlap)" : " (a hole)"));
    covered = info->end;
  }
  if (covered != data_size)
    throw ValueError(where + ": expected a data section of " + std::to_string(covered) + " bytes, got " +
                     std::to_string(data_size));
}

}  // namespace

std::optional<DType> parse_dtype(const std::string& name) {
  for (DType dtype : kReadable)
    if (name == dtype_name(dtype)) return dtype;
  return std::nullopt;
}

/// What another kind of file (a web page, a Git LFS pointer, GGUF) is best known by.
static std::string not_safetensors(std::span<const std::byte> file) {
  constexpr size_t kShown = 24;
  constexpr const char* kHex = "0123456789abcdef";
  std::string text;
  for (const std::byte b : file.first(std::min(kShown, file.size()))) {
    const auto c = std::to_integer<unsigned char>(b);
    if (c >= ' ' && c <= '~' && c != '"' && c != '\\')
      text += static_cast<char>(c);
    else
      text += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
  }
  return " (not a safetensors file; it begins with \"" + text + "\")";
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& where) {
  uint64_t length = 0;
  if (file.size() < sizeof length)
    throw ValueError(where + ": expected a header length of 8 bytes, got a file of " +
                     std::to_string(file.size()) + not_safetensors(file));
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kMaxHeaderBytes)
    throw ValueError(where + ": expected a header of at most " + std::to_string(kMaxHeaderBytes) +
                     " bytes, got " + std::to_string(length) + not_safetensors(file));
  if (length > file.size() - sizeof length)
    throw ValueError(where + ": expected a header of " + std::to_string(length) + " bytes, got a file with " +
                     std::to_string(file.size() - sizeof length) + " after the length (a truncated file?)");
  const char* text = reinterpret_cast<const char*>(file.data()) + sizeof length;
  // Writers must begin with '{'; white space before it is accepted as elsewhere, a byte order mark is not.
  const std::string_view json(text, length);
  const size_t first = json.find_first_not_of(" \t\r\n");
  if (first == json.npos || json[first] != '{')
    throw ValueError(where + ": header: expected a JSON object, got text that does not begin with {" +
                     not_safetensors(file));
  refuse_nul(json, where + ": header");
  SafetensorsHeader header;
  header.data_begin = sizeof length + length;
  HeaderReader reader(header, where);
  nlohmann::json::sax_parse(json, &reader);
  check_tiling(header, static_cast<int64_t>(file.size() - header.data_begin), where);
  return header;
}

}  // namespace isobit
