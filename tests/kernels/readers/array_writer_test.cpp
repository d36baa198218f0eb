// Rows written to .npy, .npz and IDX files; bytes compressed by gzip.
#include "troupe/kernels/readers/array_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/readers/compressed.hpp"
#include <troupe/kernels/readers/array_files.hpp>
#include <troupe/kernels/readers/byte_stream.hpp>
#include <troupe/kernels/readers/gzip_file.hpp>
#include <troupe/kernels/readers/npy.hpp>
#include <troupe/kernels/readers/npz.hpp>

namespace troupe::testing {
namespace {

class ArrayWriting : public ::testing::Test {
 protected:
  // Row by row.
  void write(const std::string& path, ArrayFormat format, const std::vector<NamedTensor>& tensors) {
    BatchSchema schema;
    for (const NamedTensor& t : tensors)
      schema.push_back({t.name, t.tensor.dtype(), t.tensor.shape().sub(1, t.tensor.shape().rank())});
    ArrayWriter writer(files_, path, format, schema);
    for (std::int64_t row = 0; row < tensors[0].tensor.shape()[0]; ++row) {
      std::vector<Tensor> element;
      for (std::size_t i = 0; i < tensors.size(); ++i)
        element.push_back(tensors[i].tensor.rows(row, row + 1).reshaped(schema[i].shape));
      writer.append(element);
    }
    writer.finish();
  }
  std::string refused(ArrayFormat format, const BatchSchema& schema) {
    return error_of([&] { ArrayWriter(files_, "/f", format, schema); }).to_string();
  }

  MemoryFileSystem files_;
};

TEST_F(ArrayWriting, FilesHaveTheBytesOfThoseWrittenAtOnce) {
  std::vector<NamedTensor> tensors;
  for (const DType dtype : {DType::f32, DType::f16, DType::u64, DType::boolean, DType::i8}) {
    Tensor t(dtype, Shape{20'000, 3});
    for (std::size_t i = 0; i < t.num_bytes(); ++i)
      t.mutable_raw()[i] = static_cast<std::byte>(dtype == DType::boolean ? i % 2 : i * 37 % 251);
    tensors.push_back({std::string(name(dtype)), t});
  }
  write("/rows.npz", ArrayFormat::npz, tensors);
  write_npz(files_, "/whole.npz", tensors);
  EXPECT_EQ(files_.content("/rows.npz"), files_.content("/whole.npz"));
  write("/rows.npy", ArrayFormat::npy, {tensors[1]});
  write_npy(files_, "/whole.npy", tensors[1].tensor);
  EXPECT_EQ(files_.content("/rows.npy"), files_.content("/whole.npy"));
  write("/none.npy", ArrayFormat::npy, {{"x", Tensor(DType::f32, Shape{0, 2})}});
  EXPECT_EQ(read_npy(files_, "/none.npy").shape(), (Shape{0, 2}));
  EXPECT_EQ(files_.list("/").size(), 5u) << "files of rows are removed";
}

TEST_F(ArrayWriting, IdxIsBigEndian) {
  using namespace std::string_literals;
  write("/i", ArrayFormat::idx, {{"x", Tensor::of<std::int16_t>({2, 2}, {1, 2, -1, 256})}});
  EXPECT_EQ(files_.content("/i"), "\0\0\x0b\2\0\0\0\2\0\0\0\2\0\1\0\2\xff\xff\1\0"s);
  write("/f", ArrayFormat::idx, {{"x", Tensor::vector<double>({1, -0.5})}});
  const data::Pipeline again = data::idx({{"x", "/f"}}, {.files = &files_});
  EXPECT_EQ(std::get<data::IndexedStage>(again.stage()->kind).source->read(1)[0].to_string(), "f64[] = -0.5");
}

TEST_F(ArrayWriting, WhatAFormatDoesNotHoldIsRefused) {
  const BatchComponent x{"x", DType::f32, {2}}, s{"s", DType::string, {}}, ragged{"r", DType::i64, {kUnknown}};
  EXPECT_EQ(refused(ArrayFormat::npy, {x, s}),
            "invalid_argument: cannot write '/f': it holds one component, not 2: x f32[2], s string[]");
  EXPECT_EQ(refused(ArrayFormat::npz, {x, s}),
            "unimplemented: cannot write '/f': NumPy has no dtype for tensor 's' of string");
  EXPECT_EQ(refused(ArrayFormat::npz, {ragged}),
            "invalid_argument: cannot write '/f': the shape of 'r' i64[?] is not known");
  EXPECT_EQ(refused(ArrayFormat::idx, {{"n", DType::i64, {}}}),
            "unimplemented: cannot write '/f': IDX has no i64 ('n'): it has u8, i8, i16, i32, f32 and f64");
  EXPECT_EQ(refused(ArrayFormat::npy, {{"x", DType::u8, {1, 1, 1, 1, 1, 1, 1, 1}}}),
            "invalid_argument: cannot write '/f': rows of 'x' have 8 dimensions, which leaves none for their number");
  EXPECT_EQ(error_of([&] {
              ArrayWriter(files_, "/f", ArrayFormat::idx, {{"x", DType::u8, {std::int64_t{1} << 32}}}).finish();
            }).to_string(),
            "invalid_argument: cannot write '/f': IDX has dimensions below 2^32, but 4294967296 is one");
  ArrayWriter writer(files_, "/f", ArrayFormat::npz, {x});
  writer.append(std::vector<Tensor>{Tensor::vector<float>({1, 2})});
  EXPECT_EQ(error_of([&] { writer.append(std::vector<Tensor>{Tensor::vector<float>({1})}); }).to_string(),
            "invalid_argument: '/f': 'x' of element 1 is f32[1], but those before are f32[2]: arrays have rows of one "
            "shape");
  EXPECT_EQ(error_of([&] { writer.append(std::vector<Tensor>{}); }).code(), Code::invalid_argument);
  EXPECT_EQ(writer.rows(), 1u);
}

TEST_F(ArrayWriting, WithoutAnEndNothingHasChanged) {
  files_.create("/f");
  files_.content("/f") = "old";
  {
    ArrayWriter writer(files_, "/f", ArrayFormat::npy, {{"x", DType::f32, {}}});
    writer.append(std::vector<Tensor>{Tensor::scalar(1.0f)});
  }
  EXPECT_EQ(files_.content("/f"), "old");
  EXPECT_EQ(files_.list("/").size(), 1u);
  MemoryFileSystem full;
  full.full_at = 1;  // the second file of rows
  EXPECT_EQ(error_of([&] {
              ArrayWriter(full, "/f", ArrayFormat::npz, {{"x", DType::f32, {}}, {"y", DType::f32, {}}});
            }).code(),
            Code::resource_exhausted);
  EXPECT_TRUE(full.list("/").empty());
}

TEST_F(ArrayWriting, GzipFilesHaveWhatWasAppended) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i * 7919 % 1000);
  std::vector<std::string> files;
  for (const std::size_t step : {std::size_t{1} << 20, std::size_t{1000}}) {
    const auto file = files_.create("/t.gz");
    GzipFile packed(*file);
    for (std::size_t at = 0; at < text.size(); at += step)
      packed.append(std::as_bytes(std::span(text).subspan(at, std::min(step, text.size() - at))));
    packed.finish();
    files.push_back(files_.content("/t.gz"));
    ByteStream stream(files_, "/t.gz");
    EXPECT_EQ(stream.compression(), Compression::gzip);
    EXPECT_EQ(stream.peek(text.size() + 1), text);
  }
  EXPECT_EQ(files[0], files[1]);
  EXPECT_LT(files[0].size(), text.size() / 2);
}

}  // namespace
}  // namespace troupe::testing
