// .npy, .npz and IDX files as sources of pipelines. Files of NumPy itself: tests/python/data_files_test.py.
#include "troupe/kernels/readers/array_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/actors/checkpoint/forwarding_file_system.hpp"
#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/readers/compressed.hpp"
#include <troupe/kernels/readers/npy.hpp>
#include <troupe/kernels/readers/npz.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Rows = std::vector<std::vector<Tensor>>;

Tensor counting(const Shape& shape, float first = 0) {
  Tensor out(DType::f32, shape);
  std::iota(out.mutable_data<float>(), out.mutable_data<float>() + out.num_elements(), first);
  return out;
}

std::string npy_of(std::string_view descr, bool by_columns, std::string_view shape, std::string_view elements) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}\n", descr,
                                 by_columns ? "True" : "False", shape);
  std::string out("\x93NUMPY\1\0", 8);
  out += static_cast<char>(text.size() & 0xff);
  out += static_cast<char>(text.size() >> 8);
  return out + text + std::string(elements);
}

std::string idx_of(std::uint8_t type, std::vector<std::uint32_t> dims, std::string_view elements) {
  std::string out{'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (const std::uint32_t dim : dims)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(dim >> shift & 0xff);
  return out + std::string(elements);
}

// Counts the bytes that are read.
class CountedReads final : public ForwardingFileSystem {
 public:
  explicit CountedReads(FileSystem& files) : ForwardingFileSystem(files) {}
  std::unique_ptr<ReadableFile> open(const std::string& path) override {
    class File final : public ReadableFile {
     public:
      File(std::unique_ptr<ReadableFile> file, std::uint64_t& bytes) : file_(std::move(file)), bytes_(bytes) {}
      std::uint64_t size() override { return file_->size(); }
      void read(std::uint64_t offset, std::span<std::byte> out) override {
        bytes_ += out.size();
        file_->read(offset, out);
      }

     private:
      std::unique_ptr<ReadableFile> file_;
      std::uint64_t& bytes_;
    };
    return std::make_unique<File>(files_.open(path), bytes);
  }
  std::uint64_t bytes = 0;
};

const data::IndexedSource& by_number(const data::Pipeline& pipeline) {
  return *std::get<data::IndexedStage>(pipeline.stage()->kind).source;
}
const data::ElementSource& in_order(const data::Pipeline& pipeline) {
  return *std::get<data::SplitsStage>(pipeline.stage()->kind).source;
}

Rows rows_of(const data::Pipeline& pipeline) {
  Rows out;
  if (pipeline.addressable()) {
    for (std::uint64_t i = 0; i < by_number(pipeline).size(); ++i) out.push_back(by_number(pipeline).read(i));
    return out;
  }
  for (std::uint64_t split = 0; split < in_order(pipeline).splits(); ++split) {
    const auto cursor = in_order(pipeline).open(split);
    std::vector<Tensor> element;
    while (cursor->next(element)) out.push_back(element);
  }
  return out;
}

// Whether the rows of component `i` are those of the tensor.
void expect_rows(const Rows& rows, std::size_t i, const Tensor& want) {
  ASSERT_EQ(std::ssize(rows), want.shape()[0]);
  for (std::int64_t row = 0; row < std::ssize(rows); ++row)
    EXPECT_TRUE(bitwise_equal(rows[static_cast<std::size_t>(row)].at(i),
                              want.rows(row, row + 1).reshaped(want.shape().sub(1, want.shape().rank()))))
        << row << ": " << rows[static_cast<std::size_t>(row)].at(i).to_string();
}

class ArrayFiles : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& bytes) {
    if (!files_.exists(path)) files_.create(path);
    files_.content(path) = bytes;
  }
  std::string content(const std::string& path) { return files_.content(path); }
  std::string content_of_npy(const Tensor& tensor) {
    write_npy(files_, "/t", tensor);
    return content("/t");
  }
  data::ArrayOptions options(std::string component = "array") { return {&files_, std::move(component)}; }
  std::string refused(const std::string& bytes, auto&& open) {
    put("/f", bytes);
    return error_of([&] { rows_of(open("/f")); }).to_string();
  }
  std::string refused_npy(const std::string& bytes) {
    return refused(bytes, [&](const std::string& path) { return data::npy(path, options()); });
  }
  std::string refused_npz(const std::string& bytes) {
    return refused(bytes, [&](const std::string& path) { return data::npz(path, options()); });
  }
  std::string refused_idx(const std::string& bytes) {
    return refused(bytes, [&](const std::string& path) { return data::idx({{"x", path}}, options()); });
  }

  MemoryFileSystem files_;
};

TEST_F(ArrayFiles, RowsOfNpyFilesAreReadByNumber) {
  write_npy(files_, "/x-0.npy", counting({3, 2, 2}));
  write_npy(files_, "/x-1.npy", counting({0, 2, 2}));
  write_npy(files_, "/x-2.npy", counting({2, 2, 2}, 12));
  const data::Pipeline x = data::npy("/x-*.npy", options("x"));
  EXPECT_EQ(to_string(x.schema()), "x f32[2,2]");
  EXPECT_EQ(x.size(), 5u);
  EXPECT_TRUE(x.addressable());
  expect_rows(rows_of(x), 0, counting({5, 2, 2}));
  std::vector<Tensor> batch{Tensor::zeros(DType::f32, {2, 2, 2})};
  by_number(x).read_row(4, 1, batch);
  by_number(x).read_row(0, 0, batch);
  EXPECT_EQ(batch[0].to_string(), "f32[2,2,2] = 0 1 2 3 16 17 18 19");
}

TEST_F(ArrayFiles, OnlyTheRowsThatAreAskedForAreRead) {
  write_npy(files_, "/x.npy", counting({100'000, 8}));
  CountedReads counted(files_);
  const data::Pipeline x = data::npy("/x.npy", {.files = &counted});
  for (const int row : {99'000, 5, 50'000})
    EXPECT_EQ(by_number(x).read(static_cast<std::uint64_t>(row))[0].data<float>()[0], 8.0f * static_cast<float>(row));
  EXPECT_LT(counted.bytes, 300'000u) << "of 3.2 million";
  const std::uint64_t before = counted.bytes;
  for (std::uint64_t row = 1000; row < 2000; ++row) by_number(x).read(row);
  EXPECT_LT(counted.bytes - before, 80'000u) << "rows in order share reads";
}

TEST_F(ArrayFiles, ThreadsReadAtATime) {
  write_npz(files_, "/d.npz", std::vector<NamedTensor>{{"x", counting({200, 3})}, {"y", counting({200})}});
  const data::Pipeline d = data::npz("/d.npz", options());
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint64_t row = (i * 37 + t * 50) % 200;
        const auto element = by_number(d).read(row);
        if (element[0].data<float>()[0] != 3.0f * static_cast<float>(row) ||
            element[1].item<float>() != static_cast<float>(row))
          ++wrong;
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ArrayFiles, OrdersOfBytesAndDimensionsAreConverted) {
  put("/big.npy", npy_of(">i2", false, "(3,)", std::string("\0\1\1\0\xff\xff", 6)));
  EXPECT_EQ(rows_of(data::npy("/big.npy", options()))[1][0].to_string(), "i16[] = 256");
  EXPECT_EQ(rows_of(data::npy("/big.npy", options()))[2][0].to_string(), "i16[] = -1");
  // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]], 'u1')
  put("/columns.npy", npy_of("|u1", true, "(2, 3)", "\1\4\2\5\3\6"));
  const data::Pipeline columns = data::npy("/columns.npy", options());
  EXPECT_TRUE(columns.addressable());
  expect_rows(rows_of(columns), 0, Tensor::of<std::uint8_t>({2, 3}, {1, 2, 3, 4, 5, 6}));
  put("/columns.npy.gz", gzip(content("/columns.npy")));
  EXPECT_EQ(error_of([&] { data::npy("/columns.npy.gz", options()); }).to_string(),
            "unimplemented: '/columns.npy.gz': is compressed and stored by columns (fortran_order): decompress it, or "
            "save numpy.ascontiguousarray(x)");
}

TEST_F(ArrayFiles, ArraysOfAnArchiveAreComponents) {
  const std::vector<NamedTensor> tensors = {
      {"x", counting({4, 2})}, {"label", Tensor::vector<std::int64_t>({7, 8, 9, 10})}, {"other", counting({3})}};
  for (const bool compress : {false, true}) {
    SCOPED_TRACE(compress);
    write_npz(files_, "/d.npz", tensors, {.compress = compress});
    data::ArrayOptions both = options();
    both.arrays = {"label", "x"};
    const data::Pipeline d = data::npz("/d.npz", both);
    EXPECT_EQ(to_string(d.schema()), "label i64[], x f32[2]");
    EXPECT_EQ(d.size(), 4u);
    EXPECT_EQ(d.forward_because(),
              compress ? "stage 'npz /d.npz' reads its files in order: '/d.npz:label.npy' is deflated" : "");
    expect_rows(rows_of(d), 0, tensors[1].tensor);
    expect_rows(rows_of(d), 1, tensors[0].tensor);
    EXPECT_EQ(error_of([&] { data::npz("/d.npz", options()); }).to_string(),
              "invalid_argument: '/d.npz:other.npy' has 3 rows, but '/d.npz:x.npy' has 4: pass arrays with equal first "
              "dimensions, of x f32[4,2], label i64[4], other f32[3]");
    both.arrays = {"y"};
    EXPECT_THAT(error_of([&] { data::npz("/d.npz", both); }).to_string(), StartsWith("not_found: '/d.npz' has no"));
  }
}

TEST_F(ArrayFiles, CompressedOnesGoOnFromAnyPosition) {
  const Tensor x = counting({300, 200});  // rows that cross pieces
  write_npz(files_, "/deflated.npz", std::vector<NamedTensor>{{"x", x}}, {.compress = true});
  put("/x.npy.gz", gzip(content_of_npy(x)));
  put("/x.npy.zst", zstd(content_of_npy(x)));
  for (const data::Pipeline& pipeline :
       {data::npz("/deflated.npz", options()), data::npy("/x.npy.gz", options()), data::npy("/x.npy.zst", options())}) {
    SCOPED_TRACE(pipeline.describe());
    EXPECT_FALSE(pipeline.addressable());
    EXPECT_EQ(pipeline.size(), 300u);
    expect_rows(rows_of(pipeline), 0, x);
    const auto cursor = in_order(pipeline).open(0);
    std::vector<Tensor> element;
    for (const std::uint64_t row : {299u, 17u, 18u, 0u}) {
      cursor->seek(row);
      EXPECT_EQ(cursor->position(), row);
      ASSERT_TRUE(cursor->next(element));
      EXPECT_EQ(element[0].data<float>()[0], 200.0f * static_cast<float>(row));
    }
    cursor->seek(298);
    EXPECT_TRUE(cursor->skip());
    ASSERT_TRUE(cursor->next(element));
    EXPECT_EQ(element[0].data<float>()[0], 200.0f * 299);
    EXPECT_FALSE(cursor->skip());
    cursor->seek(300);
    EXPECT_FALSE(cursor->next(element));
    EXPECT_THAT(error_of([&] { cursor->seek(301); }).message(), HasSubstr("has 300 rows, but must have at least 301"));
    std::vector<Tensor> batch{Tensor::zeros(DType::f32, {2, 200})};
    cursor->seek(5);
    ASSERT_TRUE(cursor->next_row(1, batch));
    EXPECT_EQ(batch[0].data<float>()[201], 1001.0f);
  }
}

TEST_F(ArrayFiles, IdxFilesAreReadTogether) {
  put("/images", idx_of(8, {3, 2, 2}, "abcdefghijkl"));
  put("/labels", idx_of(8, {3}, "\5\6\7"));
  const data::Pipeline plain = data::idx({{"image", "/images"}, {"label", "/labels"}}, options());
  EXPECT_EQ(to_string(plain.schema()), "image u8[2,2], label u8[]");
  EXPECT_TRUE(plain.addressable());
  EXPECT_EQ(by_number(plain).read(2)[0].to_string(), "u8[2,2] = 105 106 107 108");
  EXPECT_EQ(by_number(plain).read(1)[1].to_string(), "u8[] = 6");
  put("/labels.gz", gzip(content("/labels")));
  const data::Pipeline packed = data::idx({{"image", "/images"}, {"label", "/labels.gz"}}, options());
  EXPECT_THAT(packed.forward_because(), HasSubstr("'/labels.gz' is compressed (gzip)"));
  EXPECT_EQ(packed.size(), 3u);
  expect_rows(rows_of(packed), 1, Tensor::vector<std::uint8_t>({5, 6, 7}));
  put("/floats", idx_of(0x0d, {1, 2}, std::string("\x3f\x80\0\0\xc0\0\0\0", 8)));
  EXPECT_EQ(rows_of(data::idx({{"x", "/floats"}}, options()))[0][0].to_string(), "f32[2] = 1 -2");
  put("/labels", idx_of(8, {2}, "\5\6"));
  EXPECT_EQ(error_of([&] {
              data::idx({{"image", "/images"}, {"label", "/labels"}}, options());
            }).to_string(),
            "invalid_argument: '/labels' has 2 rows, but '/images' has 3: pass arrays with equal first dimensions, of "
            "image u8[3,2,2], label u8[2]");
  EXPECT_EQ(error_of([&] { data::idx({}); }).code(), Code::invalid_argument);
}

TEST_F(ArrayFiles, WhatIsNoRowsOfNumbersIsRefusedByName) {
  EXPECT_EQ(refused_npy(npy_of("<U5", false, "(1,)", std::string(20, '\0'))),
            "unimplemented: '/f': Troupe has no dtype for NumPy's '<U5': convert the array");
  EXPECT_EQ(refused_npy(npy_of("<c8", false, "(1,)", std::string(8, '\0'))),
            "unimplemented: '/f': Troupe has no dtype for NumPy's '<c8': convert the array");
  EXPECT_EQ(refused_npy(npy_of("<f4", false, "()", "1234")),
            "invalid_argument: '/f': is a scalar: an array whose rows are elements has at least one dimension");
  EXPECT_EQ(refused_npy(npy_of("|b1", false, "(2, 2)", std::string("\0\1\0\2", 4))),
            "data_loss: '/f': element 1 of row 1 is 2, neither 0 nor 1");
  write_npy(files_, "/x-0.npy", counting({3, 2}));
  write_npy(files_, "/x-1.npy", counting({3, 3}));
  EXPECT_EQ(error_of([&] { data::npy("/x-*.npy", options()); }).to_string(),
            "data_loss: '/x-1.npy': has rows array f32[3], but those of '/x-0.npy' are array f32[2]");
  EXPECT_EQ(error_of([&] { data::npy("/none*", options()); }).code(), Code::not_found);
}

TEST_F(ArrayFiles, HeadersThatClaimTooMuchAreRefused) {
  EXPECT_EQ(refused_npy(npy_of("<f4", false, "(1152921504606846976,)", "")),  // 2^60
            "data_loss: '/f': byte 86: <f4[1152921504606846976] needs 4611686018427387904 bytes, but 0 follow the "
            "header");
  EXPECT_THAT(refused_npy(npy_of("<f4", false, "(4294967296, 4294967296)", "")), StartsWith("data_loss: '/f': .npy"));
  EXPECT_EQ(refused_npy(npy_of("<f4", false, "(1152921504606846976, 0)", "")),
            "invalid_argument: '/f': its rows [0] have no elements");
  EXPECT_THAT(refused_npy(npy_of("<f8", false, "(0, 2305843009213693952)", "")),
              StartsWith("data_loss: '/f': a row: "));
  EXPECT_EQ(refused_npy(gzip(npy_of("<f4", false, "(2, 1152921504606846)", ""))),
            "resource_exhausted: '/f': a row [1152921504606846] has 4611686018427384 bytes; the limit is 1073741824");
  EXPECT_EQ(refused_npy(gzip(npy_of("<f4", false, "(1000, 200000000)", "abcd"))),
            "data_loss: '/f': ends at byte 85, within a row of 800000000 bytes");
  EXPECT_EQ(refused_npy(gzip(npy_of("<f4", true, "(100000, 200000)", ""))),
            "resource_exhausted: '/f': 80000000000 bytes are stored by columns (fortran_order); the limit is "
            "1073741824: save numpy.ascontiguousarray(x)");
  EXPECT_EQ(refused_idx(idx_of(8, {0xffffffff, 0xffffffff, 0xffffffff}, "")),
            "data_loss: '/f': byte 4: the number of elements of [4294967295,4294967295,4294967295] overflows 63 bits");
  EXPECT_EQ(refused_idx(idx_of(8, {4, 2}, "abc")),
            "data_loss: '/f': byte 12: u8[4,2] needs 8 bytes, but 3 follow the header");
  EXPECT_EQ(refused_idx(gzip(idx_of(8, {0xffffffff, 28, 28}, "abc"))).substr(0, 60),
            "data_loss: '/f': byte 4: u8[4294967295,28,28] needs 33672543");
  EXPECT_EQ(refused_idx(idx_of(8, {4, 0}, "")), "invalid_argument: '/f': its rows [0] have no elements");
}

TEST_F(ArrayFiles, FilesThatAreCutOrDamagedAreRefused) {
  const std::string npy = content_of_npy(counting({50, 4})), idx = idx_of(8, {3, 2}, "abcdef");
  EXPECT_THAT(refused_npy(npy.substr(0, npy.size() - 1)), HasSubstr("needs 800 bytes, but 799 follow the header"));
  EXPECT_EQ(refused_npy("\x93NUM"), "data_loss: '/f': not an .npy file: it has 4 bytes");
  EXPECT_EQ(refused_npy(gzip(npy + "more")), "data_loss: '/f': byte 928: more bytes follow where the array should end");
  EXPECT_EQ(refused_npy(gzip(npy.substr(0, 600))), "data_loss: '/f': ends at byte 600, within a row of 16 bytes");
  const std::string packed = gzip(npy);
  EXPECT_THAT(refused_npy(packed.substr(0, packed.size() - 3)), HasSubstr("the file ends within compressed data"));
  EXPECT_EQ(refused_idx(idx.substr(0, 6)), "data_loss: '/f': byte 6: the file ends within dimension 0");
  EXPECT_THAT(refused_idx(std::string("\0\0\x0a\1\0\0\0\0", 8)), StartsWith("data_loss: '/f': byte 0: the magic number"
                                                                            " is 00000a01, expected 0000TTNN"));
  EXPECT_THAT(refused_idx(std::string("\0\0\x08\x09", 4)), HasSubstr("from 01 to 08 dimensions"));
  EXPECT_THAT(refused_idx(std::string("\0\0\x08\0", 4)), HasSubstr("from 01 to 08 dimensions"));
  EXPECT_THAT(refused_idx(gzip(idx + "x")), HasSubstr("more bytes follow where the array should end"));
  write_npz(files_, "/f", std::vector<NamedTensor>{{"x", counting({2000, 4})}}, {.compress = true});
  std::string npz = content("/f");
  npz[npz.size() / 2] ^= 1;
  EXPECT_THAT(refused_npz(npz), StartsWith("data_loss: '/f"));
  EXPECT_THAT(refused_npz("PK"), HasSubstr("no end record in 2 bytes"));
  write_npz(files_, "/f", std::vector<NamedTensor>{});
  EXPECT_EQ(refused_npz(content("/f")), "data_loss: 'npz /f': has no arrays");
}

TEST_F(ArrayFiles, ChecksumsOfDeflatedArraysAreCheckedAtTheirEnd) {
  write_npz(files_, "/d.npz", std::vector<NamedTensor>{{"x", counting({20, 4})}}, {.compress = true});
  std::string& bytes = files_.content("/d.npz");
  const std::size_t entry = bytes.find("PK\1\2");
  bytes[entry + 16] ^= 1;  // the checksum in the directory
  EXPECT_THAT(error_of([&] { rows_of(data::npz("/d.npz", options())); }).message(), HasSubstr("has checksum"));
}

TEST_F(ArrayFiles, ArchivesOfManyArraysAreNotReadSideBySide) {
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < 300; ++i) tensors.push_back({fmt::format("w{}", i), counting({2})});
  write_npz(files_, "/d.npz", tensors);
  EXPECT_EQ(error_of([&] { data::npz("/d.npz", options()); }).to_string(),
            "invalid_argument: 'npz /d.npz': has 300 arrays; at most 256 are read together: pass the names of those "
            "that you want");
}

}  // namespace
}  // namespace troupe::testing
