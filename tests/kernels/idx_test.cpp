#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>

#include "tests/paths.hpp"
#include <troupe/kernels/readers/idx.hpp>

namespace troupe {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string idx(std::initializer_list<std::uint32_t> dims, const std::string& elements) {
  std::string file = {0, 0, 8, static_cast<char>(dims.size())};
  for (const std::uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(dim >> shift);
  }
  return file + elements;
}

std::string gzip(const std::string& plain) {
  std::string packed(compressBound(plain.size()) + 32, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// A directory of its own for each test.
class Idx : public ::testing::Test {
 protected:
  Idx() : directory_(fs::temp_directory_path() / fmt::format("troupe-idx-{}", getpid())) {
    fs::create_directories(directory_);
  }
  ~Idx() override { fs::remove_all(directory_); }

  fs::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(directory_ / name, std::ios::binary) << bytes;
    return directory_ / name;
  }
  Error error_of(const std::string& bytes, const std::string& name = "file", std::size_t limit = kMaxIdxBytes) {
    const fs::path file = write(name, bytes);
    return caught([&] { read_idx(file, limit); });
  }
  template <class F>
  static Error caught(F&& f) {
    try {
      f();
    } catch (const Error& e) {
      return e;
    }
    return {};
  }

  // A whole MNIST of three train and two test images; parts can be replaced before load().
  void write_mnist() {
    write("train-images-idx3-ubyte", idx({3, 28, 28}, std::string(3 * 784, '\x11')));
    write("train-labels-idx1-ubyte", idx({3}, {4, 0, 9}));
    write("t10k-images-idx3-ubyte", idx({2, 28, 28}, std::string(2 * 784, '\x22')));
    write("t10k-labels-idx1-ubyte", idx({2}, {1, 2}));
  }

  fs::path directory_;
};

TEST_F(Idx, ReadsShapeAndElements) {
  const Tensor expected = Tensor::of<std::uint8_t>(Shape{2, 3}, {'a', 'b', 'c', 'd', 'e', 'f'});
  const std::string file = idx({2, 3}, "abcdef");
  EXPECT_TRUE(bitwise_equal(read_idx(write("plain", file)), expected));
  EXPECT_TRUE(bitwise_equal(read_idx(write("packed.gz", gzip(file))), expected));
  EXPECT_TRUE(bitwise_equal(read_idx(write("packed-without-ending", gzip(file))), expected));
}

TEST_F(Idx, ReadsLargeAndEmptyArrays) {
  const std::string zeros(1 << 20, '\0');  // as compressible as can be
  EXPECT_EQ(read_idx(write("large.gz", gzip(idx({1024, 1024}, zeros)))).shape(), (Shape{1024, 1024}));
  EXPECT_EQ(read_idx(write("empty", idx({0, 5}, ""))).shape(), (Shape{0, 5}));
  EXPECT_EQ(read_idx(write("empty.gz", gzip(idx({0, 5}, "")))).shape(), (Shape{0, 5}));
}

TEST_F(Idx, AFileCutAtAnyByteIsRefused) {
  const std::string plain = idx({2, 3}, "abcdef");
  for (std::size_t size = 0; size < plain.size(); ++size) {
    const Error error = error_of(plain.substr(0, size));
    EXPECT_EQ(error.code(), Code::data_loss) << size;
    EXPECT_THAT(error.message(), HasSubstr("file: byte ")) << size;
  }
  const std::string packed = gzip(plain);
  for (std::size_t size = 0; size < packed.size(); ++size) {
    const Error error = error_of(packed.substr(0, size), "file.gz");
    EXPECT_EQ(error.code(), Code::data_loss) << size;
    EXPECT_THAT(error.message(), HasSubstr("file.gz: byte ")) << size;
  }
}

TEST_F(Idx, AnyFlippedByteOfACompressedFileIsRefusedOrHarmless) {
  const std::string packed = gzip(idx({2, 3}, "abcdef"));
  const Tensor expected = read_idx(write("good", packed));
  for (std::size_t i = 0; i < packed.size(); ++i) {
    std::string damaged = packed;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    const fs::path file = write("damaged", damaged);
    const Error error = caught([&] { EXPECT_TRUE(bitwise_equal(read_idx(file), expected)) << i; });
    EXPECT_TRUE(error.ok() || error.code() == Code::data_loss || error.code() == Code::resource_exhausted)
        << error.to_string();
  }
}

TEST_F(Idx, TrailingBytesAreRefused) {
  EXPECT_THAT(error_of(idx({2}, "abc")).message(), HasSubstr("byte 10: more bytes follow"));
  EXPECT_THAT(error_of(gzip(idx({2}, "abc"))).message(),
              HasSubstr("byte 10 of the decompressed data: more bytes follow"));
  const std::string packed = gzip(idx({2}, "ab"));
  EXPECT_THAT(error_of(packed + "x").message(),
              HasSubstr(fmt::format("byte {} of the compressed file: 1 bytes follow", packed.size())));
}

TEST_F(Idx, OtherFormatsAreRefusedSayingWhatWasExpected) {
  EXPECT_THAT(error_of("\x89PNG....").message(),
              AllOf(HasSubstr("byte 0: the magic number is 89504e47"), HasSubstr("000008NN")));
  EXPECT_THAT(error_of({0, 0, 13, 1, 0, 0, 0, 0}).message(), HasSubstr("the magic number is 00000d01"));
  EXPECT_THAT(error_of({0, 0, 8, 0}).message(), HasSubstr("the magic number is 00000800"));
  EXPECT_THAT(error_of(std::string("\0\0\x08\x09", 4) + std::string(100, '\0')).message(), HasSubstr("00000809"));
  EXPECT_THAT(error_of(idx({2}, "ab"), "file.gz").message(), HasSubstr("byte 0: not gzip data"));
}

TEST_F(Idx, AnnouncedSizesAreCheckedBeforeMemoryIsTaken) {
  EXPECT_THAT(error_of(idx({0xffffffff, 0xffffffff, 0xffffffff}, "abc")).message(), HasSubstr("file: byte 4: "));
  EXPECT_THAT(error_of(idx({1u << 31}, "abc")).message(),
              HasSubstr("dimensions [2147483648] need 2147483648 bytes, but the file holds at most 3"));
  EXPECT_THAT(error_of(gzip(idx({1u << 31}, "abc"))).message(), HasSubstr("but the file holds at most"));
  const Error limited = error_of(idx({100}, std::string(100, 'x')), "file", 99);
  EXPECT_EQ(limited.code(), Code::resource_exhausted);
  EXPECT_THAT(limited.message(), HasSubstr("100 bytes, more than the limit of 99"));
  EXPECT_EQ(error_of(std::string(10000, 'x'), "file", 10).code(), Code::resource_exhausted);
}

TEST_F(Idx, AMissingFileOrADirectoryIsAnError) {
  EXPECT_EQ(caught([&] { read_idx(directory_ / "absent"); }).code(), Code::not_found);
  EXPECT_EQ(caught([&] { read_idx(directory_); }).code(), Code::failed_precondition);
}

TEST_F(Idx, LoadsTheFourFilesOfMnist) {
  write_mnist();
  const DataSplits mnist = load_mnist(directory_);
  EXPECT_EQ(mnist.train.images.shape(), (Shape{3, 28, 28, 1}));
  EXPECT_EQ(mnist.test.images.values<std::uint8_t>()[0], 0x22);
  EXPECT_TRUE(bitwise_equal(mnist.train.labels, Tensor::vector<std::int32_t>({4, 0, 9})));
  EXPECT_TRUE(bitwise_equal(mnist.test.labels, Tensor::vector<std::int32_t>({1, 2})));
}

TEST_F(Idx, AcceptsTheOtherSpellingsOfTheFileNames) {
  write_mnist();
  fs::rename(directory_ / "train-images-idx3-ubyte", directory_ / "train-images.idx3-ubyte");
  fs::remove(directory_ / "t10k-labels-idx1-ubyte");
  write("t10k-labels.idx1-ubyte.gz", gzip(idx({2}, {5, 6})));
  const DataSplits mnist = load_mnist(directory_);
  EXPECT_EQ(mnist.train.size(), 3);
  EXPECT_TRUE(bitwise_equal(mnist.test.labels, Tensor::vector<std::int32_t>({5, 6})));
}

TEST_F(Idx, AnIncompleteMnistNamesTheMissingFile) {
  EXPECT_EQ(caught([&] { load_mnist(directory_ / "absent"); }).code(), Code::not_found);
  write_mnist();
  fs::remove(directory_ / "t10k-images-idx3-ubyte");
  const Error error = caught([&] { load_mnist(directory_); });
  EXPECT_EQ(error.code(), Code::not_found);
  EXPECT_THAT(error.message(),
              HasSubstr("MNIST file t10k-images not found; tried t10k-images-idx3-ubyte, t10k-images-idx3-ubyte.gz"));
}

TEST_F(Idx, ImagesAndLabelsMustFit) {
  write_mnist();
  write("train-labels-idx1-ubyte", idx({2}, {4, 0}));
  EXPECT_THAT(
      caught([&] { load_mnist(directory_); }).message(),
      AllOf(HasSubstr("train-labels-idx1-ubyte: byte 4: dimensions are [2], expected [3] to match the 3 images")));
  write("train-labels-idx1-ubyte", idx({3}, {4, 10, 0}));
  EXPECT_THAT(caught([&] { load_mnist(directory_); }).message(),
              HasSubstr("train-labels-idx1-ubyte: byte 9: label 1 is 10, expected 0 to 9"));
  write("train-images-idx3-ubyte", idx({3, 28, 27}, std::string(3 * 28 * 27, 'x')));
  EXPECT_THAT(caught([&] { load_mnist(directory_); }).message(), HasSubstr("[3,28,27], expected [n,28,28]"));
}

TEST(IdxRealFiles, MnistHasItsKnownSizesAndFirstLabels) {
  if (!fs::is_directory(testing::source_file("../shared/data/mnist")))
    GTEST_SKIP() << "no MNIST files in " << testing::source_file("../shared/data/mnist");
  const DataSplits mnist = load_mnist(testing::source_file("../shared/data/mnist"));
  EXPECT_EQ(mnist.train.size(), 60000);
  EXPECT_EQ(mnist.test.size(), 10000);
  EXPECT_EQ(mnist.train.labels.values<std::int32_t>()[0], 5);
  EXPECT_EQ(mnist.test.labels.values<std::int32_t>()[0], 7);
}

}  // namespace
}  // namespace troupe
