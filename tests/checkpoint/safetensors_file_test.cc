// SPDX-License-Identifier: Apache-2.0
// Files on disk: views, what is not a regular file, and what the writer promises.
#include <sys/stat.h>

#include <cstring>
#include <random>
#include <span>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "isobit/safetensors.h"

namespace isobit {
namespace {

using testing::expect_error;
using testing::read_file;
using testing::safetensors_bytes;
using testing::TempDir;
using testing::write_file;

constexpr DType kAllDtypes[] = {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8,
                                DType::U8,  DType::I16, DType::U16,  DType::I32, DType::U32,
                                DType::I64, DType::U64, DType::BOOL};

TensorView view_of(DType dtype, std::vector<int64_t> shape, const std::string& bytes) {
  return {dtype, std::move(shape), reinterpret_cast<const std::byte*>(bytes.data())};
}

std::string bytes_of(const TensorView& view) {
  return {reinterpret_cast<const char*>(view.data), static_cast<size_t>(view.size() * itemsize(view.dtype))};
}

TEST(SafetensorsFile, ReadsAHandMadeFile) {
  TempDir dir;
  write_file(dir / "f.safetensors",
             safetensors_bytes(
                 R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[1,2],"data_offsets":[3,11]},)"
                 R"("a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
                 "abc01234567"));
  const SafetensorsFile file(dir / "f.safetensors");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(file.contains("a"));
  EXPECT_FALSE(file.contains("__metadata__"));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.info("b").file, dir / "f.safetensors");
  EXPECT_EQ(file.info("b").begin, 3);
  const TensorView b = file.view("b");  // unaligned: it follows three bytes
  EXPECT_EQ(b.dtype, DType::F32);
  EXPECT_EQ(b.shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(bytes_of(b), "01234567");
  float widened[2];
  widen_to_f32(b, widened);
  EXPECT_EQ(std::memcmp(widened, "01234567", 8), 0);
}

TEST(SafetensorsFile, UnknownNameAndUnreadableDtype) {
  TempDir dir;
  write_file(dir / "f",
             safetensors_bytes(R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", "xx"));
  const SafetensorsFile file(dir / "f");
  EXPECT_EQ(file.info("a").dtype, "F8_E4M3");
  expect_error<TypeError>([&] { file.view("a"); }, {"[SafetensorsFile]", "tensor \"a\"", "F8_E4M3"});
  expect_error<ValueError>([&] { file.view("b"); }, {"[SafetensorsFile] name", "got \"b\""});
  expect_error<ValueError>([&] { file.info("b"); }, {"got \"b\""});
}

TEST(SafetensorsFile, ErrorsNameTheFile) {
  TempDir dir;
  write_file(dir / "short", "abc");
  expect_error<ValueError>([&] { SafetensorsFile(dir / "short"); },
                           {"[SafetensorsFile] ", (dir / "short").string(), "a file of 3"});
  write_file(dir / "empty", "");
  expect_error<ValueError>([&] { SafetensorsFile(dir / "empty"); }, {"a file of 0"});
}

TEST(SafetensorsFile, MissingFile) {
  TempDir dir;
  expect_error<FileNotFound>([&] { SafetensorsFile(dir / "none"); },
                             {"[SafetensorsFile]", (dir / "none").string()});
  write_file(dir / "file", "");
  expect_error<FileNotFound>([&] { SafetensorsFile(dir / "file" / "below"); }, {"below"});
  std::filesystem::create_symlink("nowhere", dir / "dangling");
  expect_error<FileNotFound>([&] { SafetensorsFile(dir / "dangling"); }, {"dangling"});
}

TEST(SafetensorsFile, NotARegularFile) {
  TempDir dir;
  expect_error<ValueError>([&] { SafetensorsFile{dir.path()}; }, {"a regular file", "a directory"});
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  expect_error<ValueError>([&] { SafetensorsFile(dir / "fifo"); }, {"a regular file", "a FIFO"});
  expect_error<ValueError>([] { SafetensorsFile("/dev/zero"); }, {"a regular file", "a device"});
}

TEST(SafetensorsFile, LoopOfSymbolicLinks) {
  TempDir dir;
  std::filesystem::create_symlink("b", dir / "a");
  std::filesystem::create_symlink("a", dir / "b");
  expect_error<ValueError>([&] { SafetensorsFile(dir / "a"); }, {"symbolic links"});
}

TEST(SafetensorsFile, FollowsASymbolicLink) {
  TempDir dir;
  write_file(dir / "blob", safetensors_bytes("{}", ""));
  std::filesystem::create_symlink("blob", dir / "model.safetensors");
  EXPECT_TRUE(SafetensorsFile(dir / "model.safetensors").names().empty());
}

TEST(SafetensorsFile, CopiesShareTheMapping) {
  TempDir dir;
  const std::string data = "abcd";
  write_safetensors(dir / "f", {{"a", view_of(DType::U8, {4}, data)}});
  auto file = std::make_unique<SafetensorsFile>(dir / "f");
  const SafetensorsFile copy = *file;
  const TensorView view = file->view("a");
  EXPECT_EQ(copy.view("a").data, view.data);
  file.reset();
  std::filesystem::remove(dir / "f");
  EXPECT_EQ(bytes_of(view), "abcd");
}

TEST(SafetensorsFile, DroppedTensorsStayReadable) {
  TempDir dir;
  std::string a(100'000, 'a'), b(3, 'b');
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<char>(i * 7);
  write_safetensors(dir / "f", {{"a", view_of(DType::U8, {100'000}, a)}, {"b", view_of(DType::I8, {3}, b)}});
  const SafetensorsFile file(dir / "f");
  EXPECT_EQ(bytes_of(file.view("a")), a);
  EXPECT_EQ(bytes_of(file.view("a")), a);
  EXPECT_EQ(bytes_of(file.view("b")), b);
}

TEST(WriteSafetensors, BytesOfTheFile) {
  TempDir dir;
  const std::string one = "1234", two = "ab";
  write_safetensors(dir / "f",
                    {{"w", view_of(DType::F32, {1}, one)}, {"b", view_of(DType::BF16, {1, 1}, two)}},
                    {{"format", "pt"}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"data_offsets":[0,2],"dtype":"BF16","shape":[1,1]},)"
      R"("w":{"data_offsets":[2,6],"dtype":"F32","shape":[1]}})";
  std::string padded = header;
  padded.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(read_file(dir / "f"), safetensors_bytes(padded, "ab1234"));
}

TEST(WriteSafetensors, NothingToWrite) {
  TempDir dir;
  write_safetensors(dir / "f", {});
  EXPECT_EQ(read_file(dir / "f"), safetensors_bytes("{}      ", ""));
  EXPECT_TRUE(SafetensorsFile(dir / "f").names().empty());
}

TEST(WriteSafetensors, ReplacesAFileThatIsMapped) {
  TempDir dir;
  const std::string old_data(10000, 'o'), new_data = "new";
  write_safetensors(dir / "f", {{"a", view_of(DType::U8, {10000}, old_data)}});
  const SafetensorsFile old_file(dir / "f");
  write_safetensors(dir / "f", {{"a", old_file.view("a")}, {"b", view_of(DType::U8, {3}, new_data)}});
  EXPECT_EQ(bytes_of(old_file.view("a")), old_data);
  const SafetensorsFile new_file(dir / "f");
  EXPECT_EQ(bytes_of(new_file.view("a")), old_data);
  EXPECT_EQ(bytes_of(new_file.view("b")), new_data);
}

TEST(WriteSafetensors, RefusalsLeaveTheOldFileAndNoOther) {
  TempDir dir;
  write_file(dir / "f", "old");
  const std::string data = "abcd";
  const auto write = [&](const std::string& name, const TensorView& tensor,
                         const std::map<std::string, std::string>& metadata = {}) {
    write_safetensors(dir / "f", {{name, tensor}}, metadata);
  };
  expect_error<ValueError>([&] { write("__metadata__", view_of(DType::U8, {4}, data)); },
                           {"[write_safetensors] name", "__metadata__"});
  expect_error<ValueError>([&] { write("a", view_of(DType::U8, {-1}, data)); },
                           {"\"a\"", "non-negative", "[-1]"});
  expect_error<ValueError>(
      [&] {
        write("a", view_of(DType::F32, {int64_t{1} << 62, 4}, data));
      },
      {"63 bits"});
  expect_error<ValueError>([&] { write("a", {DType::F32, {1}, nullptr}); }, {"\"a\"", "null pointer"});
  expect_error<ValueError>([&] { write("\xff", view_of(DType::U8, {4}, data)); }, {"UTF-8"});
  expect_error<ValueError>([&] { write("a", view_of(DType::U8, {4}, data), {{"k", "\xff"}}); }, {"UTF-8"});
  EXPECT_EQ(read_file(dir / "f"), "old");
  const std::filesystem::directory_iterator files(dir.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(WriteSafetensors, PathsThatCannotBeWritten) {
  TempDir dir;
  expect_error<ValueError>([&] { write_safetensors(dir.path(), {}); }, {"a regular file", "a directory"});
  expect_error<FileNotFound>([&] { write_safetensors(dir / "none" / "f", {}); },
                             {"[write_safetensors]", "none"});
}

TEST(WriteSafetensors, RandomTensorsComeBackAsTheyWere) {
  TempDir dir;
  std::mt19937 random(20240817);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  const std::string alphabet = "abc./_ \"\\\n\t{}\xc3\xa9";
  for (int round = 0; round < 60; ++round) {
    std::map<std::string, std::string> data;
    std::map<std::string, TensorView> tensors;
    for (int64_t t = below(12); t > 0; --t) {
      std::string name = std::to_string(t);
      for (int64_t n = below(20); n > 0; --n) {
        const auto at = static_cast<size_t>(below(static_cast<uint32_t>(alphabet.size()) - 1));
        name += alphabet.substr(at, at + 2 == alphabet.size() ? 2 : 1);  // both bytes of the last character
      }
      TensorView tensor{kAllDtypes[below(std::size(kAllDtypes))], {}, nullptr};
      for (int64_t rank = below(5); rank > 0; --rank) tensor.shape.push_back(below(6));
      std::string& bytes = data[name];
      bytes.resize(static_cast<size_t>(tensor.size() * itemsize(tensor.dtype)));
      for (char& byte : bytes) byte = static_cast<char>(random());
      tensor.data = reinterpret_cast<const std::byte*>(bytes.data());
      tensors[name] = tensor;
    }
    write_safetensors(dir / "f", tensors, {{"round", std::to_string(round)}});
    const SafetensorsFile file(dir / "f");
    EXPECT_EQ(file.metadata().at("round"), std::to_string(round));
    ASSERT_EQ(file.names().size(), tensors.size());
    for (const auto& [name, tensor] : tensors) {
      ASSERT_TRUE(file.contains(name)) << name;
      const TensorView read = file.view(name);
      EXPECT_EQ(read.dtype, tensor.dtype);
      EXPECT_EQ(read.shape, tensor.shape);
      EXPECT_EQ(bytes_of(read), data[name]);
    }
  }
}

}  // namespace
}  // namespace isobit
