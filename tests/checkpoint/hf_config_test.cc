// SPDX-License-Identifier: Apache-2.0
// Reading config.json itself: files, JSON strictness and Python's float literals.
#include <cmath>

#include "checkpoint/config_fields.h"
#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "isobit/model_plan.h"

namespace isobit {
namespace {

using testing::expect_error;
using testing::TempDir;
using testing::write_file;

HFConfig config_with(const std::string& fields) {
  return HFConfig::from_text(R"({"model_type":"llama",)" + fields + "}");
}

TEST(HFConfig, FromAFileOrItsDirectory) {
  TempDir dir;
  const std::string text = R"({ "model_type" : "x" })";
  write_file(dir / "config.json", text);
  for (const auto& path : {dir.path(), dir / "config.json"}) {
    const HFConfig config = HFConfig::from_json(path);
    EXPECT_EQ(config.model_type(), "x");
    EXPECT_EQ(config.text(), text);
    EXPECT_EQ(config.path(), dir / "config.json");
  }
}

TEST(HFConfig, FilesThatAreNotThere) {
  TempDir dir;
  expect_error<FileNotFound>([&] { HFConfig::from_json(dir.path()); }, {"[HFConfig]", "config.json"});
  std::filesystem::create_directory(dir / "config.json");
  expect_error<ValueError>([&] { HFConfig::from_json(dir.path()); }, {"config.json", "a directory"});
  std::filesystem::create_symlink("loop", dir / "loop");
  expect_error<ValueError>([&] { HFConfig::from_json(dir / "loop"); }, {"[HFConfig]", "symbolic links"});
}

TEST(HFConfig, HugeFilesAreNotRead) {
  TempDir dir;
  write_file(dir / "config.json", "{}");
  std::filesystem::resize_file(dir / "config.json", uintmax_t{1} << 40);
  expect_error<ValueError>([&] { HFConfig::from_json(dir.path()); },
                           {"at most 16777216 bytes", "1099511627776"});
  expect_error<ValueError>([] { HFConfig::from_text(std::string(20'000'000, ' ')); }, {"at most 16777216"});
}

TEST(HFConfig, NotAnObjectWithAModelType) {
  expect_error<ValueError>([] { HFConfig::from_text(""); }, {"[HFConfig] text", "UTF-8 JSON"});
  expect_error<ValueError>([] { HFConfig::from_text("[1]"); }, {"a JSON object", "got [1]"});
  expect_error<ValueError>([] { HFConfig::from_text("{}"); }, {"model_type", "a string", "got none"});
  expect_error<ValueError>([] { HFConfig::from_text(R"({"model_type":3})"); }, {"model_type", "got 3"});
  expect_error<ValueError>([] { HFConfig::from_text(R"({"model_type":null})"); }, {"got null"});
  expect_error<ValueError>([] { HFConfig::from_text("{\"model_type\":\"\xff\"}"); }, {"UTF-8 JSON"});
}

TEST(HFConfig, NothingHidesBehindANul) {
  expect_error<ValueError>([] { HFConfig::from_text(std::string("{\"model_type\":\"x\"}\0junk", 24)); },
                           {"a NUL at byte 18"});
}

TEST(HFConfig, OnlyArchitectures) {
  expect_error<ValueError>([] { HFConfig::from_text(R"({"architectures":["LlamaForCausalLM"]})"); },
                           {"model_type", "only architectures [\"LlamaForCausalLM\"]"});
}

TEST(HFConfig, OnlyATextConfig) {
  expect_error<ValueError>([] { HFConfig::from_text(R"({"text_config":{"model_type":"llama"}})"); },
                           {"model_type", "text_config", "not read"});
}

TEST(HFConfig, DuplicateKeysAndDepth) {
  expect_error<ValueError>([] { config_with(R"("a":1,"a":1)"); }, {"duplicate key \"a\""});
  expect_error<ValueError>([] { config_with(R"("o":{"b":1,"c":{"b":1},"b":2})"); }, {"duplicate key \"b\""});
  EXPECT_NO_THROW(config_with(R"("o":[{"b":1},{"b":2}],"b":3)"));
  expect_error<ValueError>([] { config_with("\"a\":" + std::string(64, '[') + std::string(64, ']')); },
                           {"nested at most 64"});
  EXPECT_NO_THROW(config_with("\"a\":" + std::string(63, '[') + std::string(63, ']')));
}

TEST(HFConfig, PythonFloatLiterals) {
  const HFConfig config = config_with(
      R"("a":[NaN, Infinity,-Infinity],"b":{"__float__":"Infinity"},"c":"NaN \" Infinity","rms_norm_eps":NaN)");
  const ConfigFields fields(config);
  EXPECT_EQ(fields.string_or("c", ""), "NaN \" Infinity");
  EXPECT_EQ(fields.shown("b"), "Infinity");
  EXPECT_EQ(fields.shown("rms_norm_eps"), "NaN");
  expect_error<UnsupportedModel>([&] { fields.positive("rms_norm_eps"); }, {"rms_norm_eps", "got NaN"});
  expect_error<UnsupportedModel>([&] { fields.integer("b", 0, 9); },
                                 {"b: expected an integer", "got Infinity"});
  for (const char* text : {"-NaN", "NaNNaN", "1NaN", "nan", "Infinityx", "+Infinity"})
    expect_error<ValueError>([&] { config_with(std::string("\"a\":") + text); }, {"UTF-8 JSON"});
  expect_error<ValueError>([] { HFConfig::from_text(R"({NaN:1})"); }, {"UTF-8 JSON"});
}

TEST(ConfigFields, Integers) {
  const HFConfig config =
      config_with(R"("i":4096,"f":4096.0,"e":1e6,"n":-3,"h":1.5,"s":"4","b":true,"z":null,"l":[4],)"
                  R"("u":18446744073709551615,"huge":1e300)");
  const ConfigFields fields(config);
  EXPECT_EQ(fields.integer("i", 1, 5000), 4096);
  EXPECT_EQ(fields.integer("f", 1, 5000), 4096);
  EXPECT_EQ(fields.integer("e", 1, 1000000), 1000000);
  EXPECT_EQ(fields.integer("n", -3, 0), -3);
  EXPECT_EQ(fields.integer_or("absent", 7, 0, 9), 7);
  for (const char* field : {"h", "s", "b", "z", "l", "u", "huge", "absent"})
    expect_error<UnsupportedModel>([&] { fields.integer(field, 0, 9); },
                                   {"[plan_for] ", field, ": expected an integer in 0..9"});
  expect_error<UnsupportedModel>([&] { fields.integer("i", 1, 4095); }, {"1..4095", "got 4096"});
  expect_error<UnsupportedModel>([&] { fields.integer_or("z", 7, 0, 9); }, {"got null"});
  expect_error<UnsupportedModel>([&] { fields.integer("absent", 0, 9); }, {"got nothing"});
}

TEST(ConfigFields, PositiveNumbersFitFloat32) {
  const HFConfig config =
      config_with(R"("i":10000,"f":1e-6,"z":0,"n":-1.0,"tiny":1e-60,"big":1e39,"s":"1","b":true)");
  const ConfigFields fields(config);
  EXPECT_EQ(fields.positive("i"), 10000.0);
  EXPECT_EQ(fields.positive("f"), 1e-6);
  EXPECT_EQ(fields.positive_or("absent", 0.5), 0.5);
  for (const char* field : {"z", "n", "tiny", "big", "s", "b", "absent"})
    expect_error<UnsupportedModel>([&] { fields.positive(field); },
                                   {field, "positive numbers in the range of float32"});
}

TEST(ConfigFields, FlagsStringsListsAndObjects) {
  const HFConfig config =
      config_with(R"("t":true,"z":null,"one":1,"s":"x","l":[1,2.5],"m":["a"],"mixed":[1,"a"],)"
                  R"("zeros":[0,1],"o":{},"p":{"q":{"r":3}})");
  const ConfigFields fields(config);
  EXPECT_TRUE(fields.flag_or("t", false));
  EXPECT_TRUE(fields.flag_or("absent", true));
  EXPECT_FALSE(fields.flag_or("z", true));
  expect_error<UnsupportedModel>([&] { fields.flag_or("one", false); }, {"one", "true or false", "got 1"});
  EXPECT_EQ(fields.string_or("absent", "d"), "d");
  expect_error<UnsupportedModel>([&] { fields.string_or("z", "d"); }, {"a string", "got null"});
  EXPECT_EQ(fields.positives("l", 2), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(fields.strings("m", 1), (std::vector<std::string>{"a"}));
  expect_error<UnsupportedModel>([&] { fields.positives("l", 3); }, {"a list of 3 numbers", "[1,2.5]"});
  expect_error<UnsupportedModel>([&] { fields.positives("mixed", 2); }, {"positive numbers"});
  expect_error<UnsupportedModel>([&] { fields.positives("zeros", 2); }, {"positive numbers"});
  expect_error<UnsupportedModel>([&] { fields.strings("mixed", 2); }, {"a list of 2 strings"});
  expect_error<UnsupportedModel>([&] { fields.strings("s", 1); }, {"a list of 1 strings"});
  EXPECT_FALSE(fields.object("o") || fields.object("z") || fields.object("absent"));
  expect_error<UnsupportedModel>([&] { fields.object("s"); }, {"an object or null", "\"x\""});
  const auto inner = fields.object("p")->object("q");
  expect_error<UnsupportedModel>([&] { inner->integer("r", 0, 2); }, {"[plan_for] p.q.r: ", "got 3"});
  EXPECT_TRUE(fields.object("p")->has_object_value());
  EXPECT_FALSE(inner->has_object_value());
  EXPECT_TRUE(fields.has("z") && !fields.has_value("z") && !fields.has("absent"));
  EXPECT_TRUE(fields.is("one", 1) && !fields.is("t", 1) && !fields.is("absent", 0));
}

}  // namespace
}  // namespace isobit
