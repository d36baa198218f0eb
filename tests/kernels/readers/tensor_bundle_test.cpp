// Tensor bundles: ours, damaged ones, and those of TensorFlow where it is installed (build/python).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/kernels/readers/leveldb_table.hpp>
#include <troupe/kernels/readers/npz.hpp>
#include <troupe/kernels/readers/tensor_bundle.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kPrefix = "/variables";
constexpr const char* kIndexPath = "/variables.index";
constexpr const char* kShardPath = "/variables.data-00000-of-00001";

std::vector<NamedTensor> bundle_examples() {
  std::vector<NamedTensor> out;
  for (int i = 0; i < 300; ++i)  // several blocks
    out.push_back({fmt::format("many/{:03}/kernel", i), Tensor::of<float>(Shape{1, 2}, {static_cast<float>(i), 2})});
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i16, DType::i32,
                            DType::i64, DType::boolean, DType::u16, DType::u32, DType::u64}) {
    Tensor t(dtype, Shape{3, 2});
    for (std::size_t i = 0; i < t.num_bytes(); ++i)
      t.mutable_raw()[i] = static_cast<std::byte>(dtype == DType::boolean ? i % 2 : i * 37 % 251);
    out.push_back({"of/" + std::string(name(dtype)), t});
  }
  out.push_back({"empty", Tensor(DType::f32, Shape{4, 0})});
  out.push_back({"text", Tensor::of<std::string>(Shape{2, 2}, {"", "a", "é", std::string(300, 'x')})});
  return out;
}

MemoryFileSystem written(const std::vector<NamedTensor>& tensors) {
  MemoryFileSystem files;
  write_tensor_bundle(files, kPrefix, TensorSource::of(tensors));
  return files;
}

Error error_of_reading(MemoryFileSystem& files) {
  return error_of([&] {
    TensorBundle bundle(files, kPrefix);
    for (const TensorInfo& info : bundle.tensors()) bundle.read(info.name);
  });
}

TEST(TensorBundle, TensorsComeBack) {
  const std::vector<NamedTensor> tensors = bundle_examples();
  MemoryFileSystem files = written(tensors);
  TensorBundle bundle(files, kPrefix);
  ASSERT_EQ(bundle.tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(bitwise_equal(bundle.read(name), tensor)) << name;
  EXPECT_TRUE(bundle.has("empty"));
  EXPECT_FALSE(bundle.has("emptyish"));
  EXPECT_EQ(bundle.tensors()[0].name, "empty");
  EXPECT_EQ(bundle.tensors()[0].stored_type, "DT_FLOAT");
  const Error error = error_of([&] { bundle.read("nothing"); });
  EXPECT_EQ(error.code(), Code::not_found);
  EXPECT_THAT(error.message(), AllOf(HasSubstr(kIndexPath), HasSubstr("nothing")));
}

TEST(TensorBundle, EachByteOfBothFilesIsChecked) {
  const std::vector<NamedTensor> tensors = {{"a", Tensor::vector<float>({1, 2, 3})},
                                            {"b", Tensor::of<std::string>(Shape{2}, {"one", "two"})}};
  for (const char* path : {kIndexPath, kShardPath}) {
    const std::string whole = written(tensors).content(path);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      MemoryFileSystem files = written(tensors);
      files.content(path)[i] = static_cast<char>(whole[i] ^ 0x41);
      const Error error = error_of_reading(files);
      const bool padding = path == kIndexPath && i + 48 >= whole.size() && whole[i] == 0;
      if (padding) continue;  // of the footer
      EXPECT_TRUE(error.code() == Code::data_loss || error.code() == Code::unimplemented) << path << " " << i;
      EXPECT_THAT(error.message(), HasSubstr(path)) << i;
      files.content(path) = whole.substr(0, i);
      EXPECT_EQ(error_of_reading(files).code(), Code::data_loss) << path << " cut to " << i;
    }
  }
}

// The pairs of an index, changed by `change` and written with the right checksums.
Error error_with(const std::function<void(TablePairs&)>& change) {
  MemoryFileSystem files = written({{"a", Tensor::vector<float>({1, 2, 3})}});
  TablePairs pairs = read_leveldb_table(files.content(kIndexPath), kIndexPath);
  change(pairs);
  files.content(kIndexPath) = leveldb_table(pairs);
  return error_of_reading(files);
}

TEST(TensorBundle, WhatEntriesClaimIsChecked) {
  const auto entry = [](std::string_view message) {
    return error_with([&](TablePairs& pairs) { pairs.at(1).second = message; });
  };
  // dtype f32, shape [3], size 12: 08 01, 12 04 12 02 08 03, 28 0c.
  EXPECT_THAT(entry("\x08\x01\x12\x04\x12\x02\x08\x04\x28\x0c").message(), HasSubstr("needs 16 bytes, but has 12"));
  EXPECT_THAT(entry("\x08\x01\x12\x04\x12\x02\x08\x03\x18\x01\x28\x0c").message(), HasSubstr("shard 1 of 1"));
  EXPECT_THAT(entry("\x08\x01\x12\x04\x12\x02\x08\x03\x20\x01\x28\x0c").message(), HasSubstr("do not fit the 12"));
  EXPECT_THAT(entry("\x08\x01\x12\x04\x12\x02\x08\x03\x28\x0c").message(), HasSubstr("checksum"));
  EXPECT_THAT(entry("\x08\x08\x12\x04\x12\x02\x08\x03").message(), HasSubstr("DT_COMPLEX64"));
  EXPECT_THAT(entry(std::string_view("\x08\x01\x3a\x00", 4)).message(), HasSubstr("slices"));
  EXPECT_THAT(entry("\x08").message(), HasSubstr("a number is cut"));
  EXPECT_THAT(entry("\x08\x01\x12\x0c\x12\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f").message(),
              HasSubstr("impossible shape"));
  EXPECT_THAT(entry("\x08\x07\x12\x06\x12\x04\x08\xff\xff\x7f\x28\x0c").message(), HasSubstr("hold no 2097151"));
}

TEST(TensorBundle, HeadersAreChecked) {
  const auto header = [](std::string_view message) {
    return error_with([&](TablePairs& pairs) { pairs.at(0).second = message; });
  };
  EXPECT_THAT(header("").message(), HasSubstr("a bundle of 0 shards"));
  EXPECT_THAT(header("\x08\x01\x10\x01").message(), HasSubstr("big-endian"));
  EXPECT_THAT(header("\x08\x01\x1a\x02\x10\x09").message(), HasSubstr("need version 9"));
  EXPECT_THAT(error_with([](TablePairs& pairs) { pairs.erase(pairs.begin()); }).message(), HasSubstr("first key"));
}

// A table of one block, in which only the first pair has the key's whole bytes.
// The index names the block `times` times, less than ten.
std::string one_block(const TablePairs& pairs, int times = 1) {
  const auto varint = [](std::string& out, std::size_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
  };
  std::string block, before;
  for (const auto& [key, value] : pairs) {
    const auto shared = static_cast<std::size_t>(std::ranges::mismatch(key, before).in1 - key.begin());
    varint(block, shared);
    varint(block, key.size() - shared);
    varint(block, value.size());
    block += key.substr(shared) + value;
    before = key;
  }
  block += std::string("\0\0\0\0\1\0\0\0", 8);
  std::string place, index, out;
  const auto append = [&](std::string text, std::string& where) {
    varint(where, out.size());
    varint(where, text.size());
    text += '\0';
    const std::uint32_t crc = masked_crc32c(text);
    out += text;
    out.append(reinterpret_cast<const char*>(&crc), 4);
  };
  append(block, place);
  for (int i = 0; i < times; ++i) {
    index += std::string("\0\1", 2) + static_cast<char>(place.size());
    index += static_cast<char>('0' + i) + place;
  }
  index += std::string("\0\0\0\0\1\0\0\0", 8);
  std::string footer;
  append(std::string("\0\0\0\0\1\0\0\0", 8), footer);
  append(index, footer);
  footer.resize(40, '\0');
  return out + footer + "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
}

TEST(TensorBundle, KeysMustAscendAndBlocksMustFollowEachOther) {
  const auto error = [](const TablePairs& pairs, int times) {
    return error_of([&] { read_leveldb_table(one_block(pairs, times), "x"); });
  };
  EXPECT_EQ(error({{"a", ""}, {"b", ""}}, 1).to_string(), Error().to_string());
  EXPECT_THAT(error({{"b", ""}, {"a", ""}}, 1).message(), HasSubstr("keys do not ascend: 'a' follows 'b'"));
  EXPECT_THAT(error({}, 2).message(), HasSubstr("begins before the end"));
}

TEST(TensorBundle, KeysThatShareTheirBytesDoNotFillMemory) {
  TablePairs pairs;
  for (int i = 0; i < 200; ++i) pairs.emplace_back(std::string(20'000, 'k') + fmt::format("{:04}", i), "");
  const Error error = error_of([&] { read_leveldb_table(one_block(pairs), "x"); });
  EXPECT_EQ(error.code(), Code::resource_exhausted);
  EXPECT_THAT(error.message(), HasSubstr("bytes of keys"));
}

TEST(TensorBundle, WriterRefusesWhatTensorFlowLacks) {
  MemoryFileSystem files;
  const std::vector<NamedTensor> twice = {{"a", Tensor::scalar(1.0f)}, {"a", Tensor::scalar(1.0f)}};
  EXPECT_THAT(error_of([&] { write_tensor_bundle(files, kPrefix, TensorSource::of(twice)); }).message(),
              HasSubstr("two tensors"));
  const std::vector<NamedTensor> nameless = {{"", Tensor::scalar(1.0f)}};
  EXPECT_THAT(error_of([&] { write_tensor_bundle(files, kPrefix, TensorSource::of(nameless)); }).message(),
              HasSubstr("no name"));
  const std::vector<NamedTensor> list = {{"l", make_list({Tensor::scalar(1.0f)})}};
  EXPECT_THAT(error_of([&] { write_tensor_bundle(files, kPrefix, TensorSource::of(list)); }).message(),
              HasSubstr("TensorFlow has no type for tensor 'l' of list"));
  EXPECT_FALSE(files.exists(kIndexPath));
}

std::string tensorflow_python() {
  const char* given = std::getenv("TROUPE_TENSORFLOW_PYTHON");
  return given ? given : source_file("build/python/bin/python3");
}

TEST(TensorBundle, TensorFlowReadsAndWritesTheSame) {
  const TemporaryDirectory directory;
  const std::string log = directory.file("log");
  const std::string script = tensorflow_python() + " " + source_file("tests/kernels/readers/tensor_bundles.py") + " ";
  const auto run = [&](const std::string& arguments) {
    return std::system((script + arguments + " >" + log + " 2>&1").c_str()) == 0;
  };
  if (!std::filesystem::exists(tensorflow_python()) || !run(""))
    GTEST_SKIP() << "no TensorFlow in build/python: tools/setup.sh --with-peers";
  const std::string theirs = directory.file("theirs"), ours = directory.file("ours");
  ASSERT_TRUE(run("write " + theirs)) << content_of(log);
  FileSystem& files = posix_file_system();
  TensorBundle bundle(files, theirs);
  NpzFile wanted(files, theirs + ".npz");
  std::vector<NamedTensor> tensors;
  for (const TensorInfo& info : wanted.tensors()) {
    tensors.push_back({info.name, wanted.read(info.name)});
    EXPECT_TRUE(bitwise_equal(bundle.read(info.name), tensors.back().tensor)) << info.name;
  }
  EXPECT_EQ(bundle.tensors().size(), tensors.size() + 1);
  const Tensor text = Tensor::of<std::string>(Shape{2, 2}, {"", "a", "é", std::string(300, 'x')});
  EXPECT_TRUE(bitwise_equal(bundle.read("text"), text));
  write_npz(files, ours + ".npz", tensors);
  tensors.push_back({"text", text});
  write_tensor_bundle(files, ours, TensorSource::of(tensors));
  EXPECT_TRUE(run("check " + ours)) << content_of(log);
}

}  // namespace
}  // namespace troupe::testing
