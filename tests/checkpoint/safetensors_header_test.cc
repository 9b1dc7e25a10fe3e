// SPDX-License-Identifier: Apache-2.0
// Every rule of the safetensors format, broken once.
#include "checkpoint/safetensors_header.h"

#include <random>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/helpers.h"
#include "isobit/error.h"

namespace isobit {
namespace {

using testing::expect_error;
using testing::safetensors_bytes;

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), "[Test] file");
}

struct Malformed {
  const char* name;
  std::string header;
  size_t data_size;
  std::vector<const char*> parts;
};

void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.header; }

std::string entry(const std::string& fields) { return R"({"a":{)" + fields + "}}"; }

std::vector<Malformed> malformed_headers() {
  const std::string rest = R"("shape":[1],"data_offsets":[0,4])";
  const std::string deep(70, '[');
  const std::string deep_end(70, ']');
  return {
      {"Empty", "", 0, {"JSON object", "does not begin with {"}},
      {"OnlySpaces", "   ", 0, {"does not begin with {"}},
      {"Array", "[]", 0, {"does not begin with {"}},
      {"ByteOrderMark", "\xef\xbb\xbf{}", 0, {"does not begin with {"}},
      {"Nul", std::string("\0{}", 3), 0, {"does not begin with {"}},
      {"UnfinishedJson", R"({"a":)", 0, {"header", "UTF-8 JSON"}},
      {"TextAfterObject", "{} x", 0, {"UTF-8 JSON"}},
      {"SecondObject", "{}{}", 0, {"UTF-8 JSON"}},
      {"TrailingNul", std::string("{}\0", 3), 0, {"UTF-8 JSON", "NUL at byte 2"}},
      {"NotUtf8", "{\"\xff\":1}", 0, {"UTF-8 JSON"}},
      {"OverlongUtf8", "{\"\xc0\x80\":1}", 0, {"UTF-8 JSON"}},
      {"LoneSurrogate", R"({"\ud800":1})", 0, {"UTF-8 JSON"}},
      {"NaNLiteral", entry(R"("dtype":"F32","shape":[NaN],"data_offsets":[0,4])"), 4, {"UTF-8 JSON"}},
      {"EntryIsNumber", R"({"a":1})", 0, {"header", "an object for \"a\"", "a number"}},
      {"EntryIsArray", R"({"a":[]})", 0, {"an object for \"a\"", "an array"}},
      {"EntryIsString", R"({"a":"b"})", 0, {"an object for \"a\"", "a string"}},
      {"EntryIsNull", R"({"a":null})", 0, {"an object for \"a\"", "null"}},
      {"NoDtype", entry(rest), 4, {"tensor \"a\"", "field dtype", "none"}},
      {"NoShape", entry(R"("dtype":"F32","data_offsets":[0,4])"), 4, {"tensor \"a\"", "field shape"}},
      {"NoOffsets", entry(R"("dtype":"F32","shape":[1])"), 4, {"tensor \"a\"", "field data_offsets"}},
      {"DtypeIsNumber", entry(R"("dtype":3,)" + rest), 4, {"tensor \"a\"", "dtype as a string", "a number"}},
      {"DtypeIsArray", entry(R"("dtype":["F32"],)" + rest), 4, {"dtype as a string", "an array"}},
      {"DtypeIsObject", entry(R"("dtype":{},)" + rest), 4, {"dtype as a string", "an object"}},
      {"ShapeIsNumber", entry(R"("dtype":"F32","shape":1,"data_offsets":[0,4])"), 4, {"shape as an array"}},
      {"ShapeIsObject", entry(R"("dtype":"F32","shape":{},"data_offsets":[0,4])"), 4, {"shape as an array"}},
      {"NegativeExtent",
       entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"),
       4,
       {"non-negative integers in shape", "negative number -1"}},
      {"MinusZeroExtent",
       entry(R"("dtype":"F32","shape":[-0],"data_offsets":[0,0])"),
       0,
       {"non-negative integers"}},
      {"FractionExtent",
       entry(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"),
       4,
       {"in shape", "1.5"}},
      {"FloatExtent", entry(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), 4, {"in shape", "1.0"}},
      {"ExponentExtent",
       entry(R"("dtype":"F32","shape":[1e0],"data_offsets":[0,4])"),
       4,
       {"in shape", "1e0"}},
      {"StringExtent",
       entry(R"("dtype":"F32","shape":["1"],"data_offsets":[0,4])"),
       4,
       {"in shape", "a string"}},
      {"BooleanExtent",
       entry(R"("dtype":"F32","shape":[true],"data_offsets":[0,4])"),
       4,
       {"in shape", "true"}},
      {"NullExtent", entry(R"("dtype":"F32","shape":[null],"data_offsets":[0,4])"), 4, {"in shape", "null"}},
      {"NestedShape",
       entry(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"),
       4,
       {"in shape", "an array"}},
      {"ExtentAbove63Bits",
       entry(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4])"),
       4,
       {"numbers below 2^63", "9223372036854775808"}},
      {"ExtentAbove64Bits",
       entry(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4])"),
       4,
       {"in shape", "18446744073709551616"}},
      {"ShapeOverflows",
       entry(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
       0,
       {"tensor \"a\"", "fits 63 bits", "overflows"}},
      {"ShapeOverflowsBeforeZero",
       entry(R"("dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0])"),
       0,
       {"fits 63 bits"}},
      {"ShapeOverflowsInUnknownDtype",
       entry(R"("dtype":"X1","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
       0,
       {"fits 63 bits"}},
      {"BytesOverflow",
       entry(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"),
       0,
       {"63 bits"}},
      {"OffsetsOfOne",
       entry(R"("dtype":"F32","shape":[1],"data_offsets":[0])"),
       4,
       {"data_offsets of two", "got 1"}},
      {"OffsetsOfThree",
       entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"),
       4,
       {"two numbers", "got 3"}},
      {"OffsetsAsObject",
       entry(R"("dtype":"F32","shape":[1],"data_offsets":{})"),
       4,
       {"data_offsets as an array"}},
      {"NegativeBegin",
       entry(R"("dtype":"F32","shape":[1],"data_offsets":[-4,0])"),
       4,
       {"in data_offsets", "-4"}},
      {"EndBeforeBegin",
       entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"),
       4,
       {"begin <= end", "4 and 0"}},
      {"TooFewBytes",
       entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"),
       4,
       {"8 bytes of F32", "got 4"}},
      {"TooManyBytes",
       entry(R"("dtype":"F32","shape":[],"data_offsets":[0,8])"),
       8,
       {"4 bytes of F32", "got 8"}},
      {"HalfByte",
       entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])"),
       1,
       {"whole number of bytes", "12 bits"}},
      {"EndPastData",
       entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"),
       4,
       {"\"a\"", "4 bytes", "truncated"}},
      {"HoleAtBegin",
       entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"),
       8,
       {"begins at 0", "got 4", "hole"}},
      {"HoleBetween",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
       4,
       {"tensor \"b\"", "begins at 2", "got 3", "hole"}},
      {"Overlap",
       R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
       4,
       {"tensor \"b\"", "begins at 3", "got 2", "overlap"}},
      {"SharedRange",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       4,
       {"tensor \"b\"", "overlap"}},
      {"BytesAfterTheLastTensor", entry(R"("dtype":"F32",)" + rest), 5, {"data section of 4 bytes", "got 5"}},
      {"DataWithoutTensors", "{}", 1, {"data section of 0 bytes", "got 1"}},
      {"DuplicateName",
       R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       0,
       {"every key once", "duplicate key \"a\""}},
      {"DuplicateNameByEscape",
       R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       0,
       {"duplicate key \"a\""}},
      {"DuplicateField",
       entry(R"("dtype":"F32","dtype":"F32",)" + rest),
       4,
       {"tensor \"a\"", "duplicate key \"dtype\""}},
      {"DuplicateUnknownField", entry(R"("dtype":"F32","x":1,"x":2,)" + rest), 4, {"duplicate key \"x\""}},
      {"DuplicateMetadata",
       R"({"__metadata__":{},"__metadata__":{}})",
       0,
       {"duplicate key \"__metadata__\""}},
      {"DuplicateMetadataKey", R"({"__metadata__":{"k":"1","k":"2"}})", 0, {"duplicate key \"k\""}},
      {"MetadataIsString", R"({"__metadata__":"x"})", 0, {"an object for \"__metadata__\"", "a string"}},
      {"MetadataValueIsNumber",
       R"({"__metadata__":{"k":1}})",
       0,
       {"a string for the metadata \"k\"", "a number"}},
      {"MetadataValueIsNull",
       R"({"__metadata__":{"k":null}})",
       0,
       {"a string for the metadata \"k\"", "null"}},
      {"MetadataValueIsObject",
       R"({"__metadata__":{"k":{}}})",
       0,
       {"a string for the metadata \"k\"", "an object"}},
      {"TooDeep", entry(R"("x":)" + deep + deep_end), 0, {"at most 64 deep"}},
  };
}

class MalformedHeader : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedHeader, IsRefusedWithItsReason) {
  const Malformed& param = GetParam();
  const std::string file = safetensors_bytes(param.header, std::string(param.data_size, '\0'));
  expect_error<ValueError>([&] { parse(file); }, {"[Test] file: "});
  for (const char* part : param.parts) expect_error<ValueError>([&] { parse(file); }, {part});
}

INSTANTIATE_TEST_SUITE_P(Rules, MalformedHeader, ::testing::ValuesIn(malformed_headers()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SafetensorsHeader, FileShorterThanTheLength) {
  for (size_t size = 0; size < 8; ++size)
    expect_error<ValueError>([&] { parse(std::string(size, '\0')); },
                             {"header length of 8 bytes", "got a file of " + std::to_string(size)});
}

TEST(SafetensorsHeader, LengthOfZero) {
  expect_error<ValueError>([] { parse(std::string(8, '\0')); }, {"does not begin with {"});
}

TEST(SafetensorsHeader, LengthAboveTheLimit) {
  std::string file = safetensors_bytes("{}", "");
  const uint64_t length = kMaxHeaderBytes + 1;
  std::memcpy(file.data(), &length, sizeof length);
  expect_error<ValueError>([&] { parse(file); }, {"header of at most 100000000 bytes", "got 100000001"});
}

TEST(SafetensorsHeader, LengthNearTheWrapAround) {
  std::string file = safetensors_bytes("{}", "");
  const uint64_t length = ~uint64_t{0};
  std::memcpy(file.data(), &length, sizeof length);
  expect_error<ValueError>([&] { parse(file); }, {"at most 100000000 bytes", "got 18446744073709551615"});
}

TEST(SafetensorsHeader, LengthBeyondTheFile) {
  std::string file = safetensors_bytes("{}", "");
  const uint64_t length = 3;
  std::memcpy(file.data(), &length, sizeof length);
  expect_error<ValueError>([&] { parse(file); }, {"header of 3 bytes", "2 after the length", "truncated"});
}

TEST(SafetensorsHeader, EveryTruncationIsRefused) {
  const std::string file = safetensors_bytes(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})",
      std::string(11, 'x'));
  EXPECT_EQ(parse(file).tensors.size(), 2u);
  for (size_t size = 0; size < file.size(); ++size)
    expect_error<ValueError>([&] { parse(file.substr(0, size)); }, {"[Test] file: "});
}

TEST(SafetensorsHeader, FlippedBytesAreRefusedOrStayInTheFile) {
  const std::string good = safetensors_bytes(
      R"({"a":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]},"b":{"dtype":"I64","shape":[4],"data_offsets":[32,64]}})",
      std::string(64, 'x'));
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips)
      bad[random() % bad.size()] = static_cast<char>(random());
    try {
      const SafetensorsHeader header = parse(bad);
      for (const auto& [name, info] : header.tensors)
        EXPECT_LE(header.data_begin + static_cast<size_t>(info.end), bad.size());
    } catch (const ValueError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000);
}

TEST(SafetensorsHeader, NoTensors) {
  const SafetensorsHeader header = parse(safetensors_bytes("{}", ""));
  EXPECT_TRUE(header.tensors.empty());
  EXPECT_EQ(header.data_begin, 10u);
}

TEST(SafetensorsHeader, WhiteSpaceAround) {
  EXPECT_EQ(parse(safetensors_bytes(" \t\r\n{ } \r\n\t ", "")).tensors.size(), 0u);
}

TEST(SafetensorsHeader, UnknownFieldsOfAnEntryAreIgnored) {
  const auto header = parse(safetensors_bytes(
      R"({"a":{"x":{"dtype":[1,{"shape":null}]},"dtype":"F32","y":-1.5,"shape":[1],"z":[[]],"data_offsets":[0,4]}})",
      "abcd"));
  const TensorInfo& info = header.tensors.at("a");
  EXPECT_EQ(info.dtype, "F32");
  EXPECT_EQ(info.shape, (std::vector<int64_t>{1}));
  EXPECT_EQ(info.end, 4);
}

TEST(SafetensorsHeader, ZeroSizedTensorsFitBetweenOthers) {
  const auto header = parse(safetensors_bytes(
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"e":{"dtype":"F32","shape":[0,7],"data_offsets":[2,2]},)"
      R"("f":{"dtype":"I64","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
      "xyz"));
  EXPECT_EQ(header.tensors.size(), 4u);
}

TEST(SafetensorsHeader, ScalarHasOneElement) {
  const auto header =
      parse(safetensors_bytes(entry(R"("dtype":"F32","shape":[],"data_offsets":[0,4])"), "abcd"));
  EXPECT_TRUE(header.tensors.at("a").shape.empty());
}

TEST(SafetensorsHeader, TypesThatAreNotReadAreListed) {
  const auto header = parse(safetensors_bytes(
      R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]},"b":{"dtype":"C64","shape":[1],"data_offsets":[2,10]},)"
      R"("c":{"dtype":"SOMETHING_NEW","shape":[5],"data_offsets":[10,13]}})",
      std::string(13, '\0')));
  EXPECT_EQ(header.tensors.at("c").dtype, "SOMETHING_NEW");
  EXPECT_FALSE(parse_dtype("C64").has_value());
}

TEST(SafetensorsHeader, EveryReadableDtypeParses) {
  for (const char* name :
       {"F32", "F16", "BF16", "F64", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL"}) {
    const auto dtype = parse_dtype(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_STREQ(dtype_name(*dtype), name);
  }
}

TEST(SafetensorsHeader, Metadata) {
  const auto header = parse(safetensors_bytes(R"({"__metadata__":{"format":"pt","k\u00e9":""}})", ""));
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.metadata.at("k\xc3\xa9"), "");
  EXPECT_TRUE(header.tensors.empty());
}

TEST(SafetensorsHeader, LongNamesAreShortenedInMessages) {
  const std::string name(100000, 'n');
  try {
    parse(safetensors_bytes("{\"" + name + "\":1}", ""));
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_LT(std::string(error.what()).size(), 300u);
  }
}

}  // namespace
}  // namespace isobit
