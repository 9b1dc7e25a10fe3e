// SPDX-License-Identifier: Apache-2.0
// Which files belong to a checkpoint directory and where each tensor is read from.
#include <string>

#include "checkpoint/helpers.h"
#include "checkpoint/names.h"
#include "isobit/error.h"
#include "isobit/safetensors.h"

namespace isobit {
namespace {

using testing::expect_error;
using testing::TempDir;
using testing::write_file;

/// Tensors of one byte each, by name.
void write_shard(const std::filesystem::path& path, const std::map<std::string, std::string>& tensors) {
  std::map<std::string, TensorView> views;
  for (const auto& [name, byte] : tensors)
    views[name] = {DType::U8, {1}, reinterpret_cast<const std::byte*>(byte.data())};
  write_safetensors(path, views);
}

void write_index(const TempDir& dir, const std::string& weight_map) {
  write_file(dir / "model.safetensors.index.json",
             R"({"metadata":{"total_size":0},"weight_map":)" + weight_map + "}");
}

char value(const Checkpoint& checkpoint, const std::string& name) {
  return static_cast<char>(*checkpoint.view(name).data);
}

TEST(Checkpoint, IndexComesFirst) {
  TempDir dir;
  write_shard(dir / "model.safetensors", {{"a", "1"}});
  write_shard(dir / "other.safetensors", {{"a", "2"}});
  EXPECT_EQ(value(Checkpoint::open(dir.path()), "a"), '1');
  write_index(dir, R"({"a":"other.safetensors"})");
  EXPECT_EQ(value(Checkpoint::open(dir.path()), "a"), '2');
}

TEST(Checkpoint, OneFileOfAnyName) {
  TempDir dir;
  write_file(dir / "readme.md", "x");
  write_shard(dir / "weights.safetensors", {{"a", "1"}});
  EXPECT_EQ(value(Checkpoint::open(dir.path()), "a"), '1');
  EXPECT_EQ(value(Checkpoint::open(dir / "weights.safetensors"), "a"), '1');
  write_shard(dir / "more.safetensors", {{"a", "2"}});
  expect_error<ValueError>([&] { Checkpoint::open(dir.path()); },
                           {"[Checkpoint]", "one *.safetensors", "more.safetensors", "weights.safetensors"});
}

TEST(Checkpoint, NothingThere) {
  TempDir dir;
  expect_error<FileNotFound>([&] { Checkpoint::open(dir.path()); }, {"[Checkpoint]", "none of them"});
  expect_error<FileNotFound>([&] { Checkpoint::open(dir / "none"); }, {"none"});
}

TEST(Checkpoint, TensorsOfTwoShards) {
  TempDir dir;
  write_shard(dir / "s1.safetensors", {{"a", "1"}});
  write_shard(dir / "s2.safetensors", {{"b", "2"}});
  write_index(dir, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(value(checkpoint, "a"), '1');
  EXPECT_EQ(value(checkpoint, "b"), '2');
  EXPECT_EQ(checkpoint.info("b").file, dir / "s2.safetensors");
  EXPECT_EQ(value(checkpoint, "b"), '2');
  EXPECT_FALSE(checkpoint.contains("c"));
  expect_error<ValueError>([&] { checkpoint.view("c"); }, {"[Checkpoint]", "got \"c\""});
}

TEST(Checkpoint, TheIndexDecidesBetweenCopies) {
  TempDir dir;
  write_shard(dir / "s1.safetensors", {{"a", "1"}, {"b", "1"}});
  write_shard(dir / "s2.safetensors", {{"a", "2"}, {"b", "2"}});
  write_index(dir, R"({"a":"s2.safetensors","b":"s1.safetensors"})");
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  EXPECT_EQ(value(checkpoint, "a"), '2');
  EXPECT_EQ(value(checkpoint, "b"), '1');
}

TEST(Checkpoint, TensorsThatTheIndexForgotAreOffered) {
  TempDir dir;
  write_shard(dir / "s1.safetensors", {{"a", "1"}, {"x", "1"}});
  write_shard(dir / "s2.safetensors", {{"b", "2"}});
  write_index(dir, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  EXPECT_EQ(value(Checkpoint::open(dir.path()), "x"), '1');
  write_shard(dir / "s2.safetensors", {{"b", "2"}, {"x", "2"}});
  expect_error<ValueError>([&] { Checkpoint::open(dir.path()); }, {"one shard for \"x\"", "got two"});
}

TEST(Checkpoint, EveryShardMustExist) {
  TempDir dir;
  write_shard(dir / "s1.safetensors", {{"a", "1"}});
  std::filesystem::create_symlink("nowhere", dir / "s4.safetensors");
  write_index(dir,
              R"({"a":"s1.safetensors","b":"s2.safetensors","c":"s3.safetensors","d":"s4.safetensors"})");
  expect_error<FileNotFound>([&] { Checkpoint::open(dir.path()); },
                             {"index.json", "missing", "s2.safetensors", "s3.safetensors", "s4.safetensors"});
}

TEST(Checkpoint, EveryTensorMustBeInItsShard) {
  TempDir dir;
  write_shard(dir / "s1.safetensors", {{"a", "1"}});
  write_index(dir, R"({"a":"s1.safetensors","b":"s1.safetensors"})");
  expect_error<ValueError>([&] { Checkpoint::open(dir.path()); }, {"index.json", "absent are \"b\""});
}

TEST(Checkpoint, LongListsAreShortened) {
  TempDir dir;
  std::string weight_map = "{";
  for (int i = 0; i < 9; ++i)
    weight_map += "\"t" + std::to_string(i) + "\":\"s" + std::to_string(i) + "\"" + (i < 8 ? "," : "}");
  write_index(dir, weight_map);
  expect_error<FileNotFound>([&] { Checkpoint::open(dir.path()); }, {"\"s4\", ... (9 in all)"});
}

TEST(Checkpoint, ShardNamesStayInTheDirectory) {
  TempDir dir;
  std::filesystem::create_directory(dir / "sub");
  write_shard(dir / "sub" / "s.safetensors", {{"a", "1"}});
  for (const std::string name :
       {"sub/s.safetensors", "../s.safetensors", "/etc/passwd", "..", ".", "", "sub\\\\s", "s\\u0000"}) {
    write_index(dir, R"({"a":")" + name + R"("})");
    expect_error<ValueError>([&] { Checkpoint::open(dir.path()); },
                             {"weight_map", "a plain file name for \"a\""});
  }
}

TEST(Checkpoint, MalformedIndex) {
  TempDir dir;
  const auto open_with = [&](const std::string& text) {
    write_file(dir / "model.safetensors.index.json", text);
    Checkpoint::open(dir.path());
  };
  expect_error<ValueError>([&] { open_with(""); }, {"[Checkpoint]", "index.json", "UTF-8 JSON"});
  expect_error<ValueError>([&] { open_with("[]"); }, {"\"weight_map\"", "got []"});
  expect_error<ValueError>([&] { open_with("{}"); }, {"\"weight_map\"", "got {}"});
  expect_error<ValueError>([&] { open_with(R"({"weight_map":[]})"); }, {"\"weight_map\""});
  expect_error<ValueError>([&] { open_with(R"({"weight_map":{"a":1}})"); }, {"file name for \"a\"", "got 1"});
  expect_error<ValueError>([&] { open_with(R"({"weight_map":{"a":"s","a":"t"}})"); },
                           {"duplicate key \"a\""});
  expect_error<ValueError>([&] { open_with(R"({"weight_map":{},"weight_map":{}})"); }, {"duplicate key"});
}

TEST(Checkpoint, DirectoriesAndLoopsInPlaceOfFiles) {
  TempDir dir;
  std::filesystem::create_directory(dir / "model.safetensors");
  expect_error<ValueError>([&] { Checkpoint::open(dir.path()); }, {"model.safetensors", "a directory"});
  std::filesystem::create_directory(dir / "model.safetensors.index.json");
  expect_error<ValueError>([&] { Checkpoint::open(dir.path()); }, {"index.json", "a directory"});
  std::filesystem::create_symlink("loop", dir / "loop");
  expect_error<ValueError>([&] { Checkpoint::open(dir / "loop"); }, {"[Checkpoint]", "symbolic links"});
  std::filesystem::remove(dir / "model.safetensors.index.json");
  write_index(dir, R"({"a":"loop"})");
  expect_error<ValueError>([&] { Checkpoint::open(dir.path()); }, {"symbolic links"});
  std::filesystem::remove(dir / "model.safetensors.index.json");
  std::filesystem::create_symlink("gone", dir / "model.safetensors.index.json");
  expect_error<FileNotFound>([&] { Checkpoint::open(dir.path()); }, {"index.json"});
}

TEST(Checkpoint, ATruncatedShardIsNamed) {
  TempDir dir;
  write_shard(dir / "s1.safetensors", {{"a", "1"}});
  write_shard(dir / "s2.safetensors", {{"b", "2"}});
  write_index(dir, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  std::filesystem::resize_file(dir / "s2.safetensors",
                               std::filesystem::file_size(dir / "s2.safetensors") - 1);
  expect_error<ValueError>([&] { Checkpoint::open(dir.path()); }, {"s2.safetensors", "\"b\"", "truncated"});
}

TEST(ResolveName, WithAndWithoutThePrefix) {
  TempDir dir;
  write_shard(dir / "f.safetensors", {{"model.a", "1"}, {"b", "2"}});
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  EXPECT_EQ(resolve_name(checkpoint, "model.a"), "model.a");
  EXPECT_EQ(resolve_name(checkpoint, "a"), "model.a");
  EXPECT_EQ(resolve_name(checkpoint, "model.b"), "b");
  EXPECT_EQ(resolve_name(checkpoint, "b"), "b");
  EXPECT_EQ(resolve_name(checkpoint, "model.c"), "");
  const WeightMap weights{{"a", {}}, {"model.a", {}}};
  EXPECT_EQ(resolve_name(weights, "a"), "a");
  EXPECT_EQ(resolve_name(weights, "model.a"), "model.a");
}

TEST(HarmlessUnused, OnlyTheShortList) {
  for (const char* name : {"model.layers.0.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq",
                           "h.0.attn.bias", "h.0.attn.masked_bias", "gpt_neox.layers.1.attention.bias",
                           "attention.masked_bias", "embeddings.position_ids", "mtp.layers.0.weight"})
    EXPECT_TRUE(harmless_unused(name)) << name;
  for (const char* name :
       {"model.layers.0.self_attn.o_proj.bias", "model.layers.0.self_attn.bias", "attn.bias.weight",
        "lm_head.weight", "model.layers.0.mtp.weight", "inv_freq", "xrotary_emb.inv_freq", ""})
    EXPECT_FALSE(harmless_unused(name)) << name;
}

}  // namespace
}  // namespace isobit
