// .safetensors, .npz and .npy. tests/python/files_test.py compares them with what NumPy and safetensors read and write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include <troupe/kernels/readers/npy.hpp>
#include <troupe/kernels/readers/npz.hpp>
#include <troupe/kernels/readers/safetensors.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// One of each dtype that `file` can hold, and tensors of unusual shapes.
std::vector<NamedTensor> examples(bool with_bf16) {
  std::vector<NamedTensor> out;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i16,
                            DType::i32, DType::i64, DType::boolean, DType::u16, DType::u32, DType::u64}) {
    if (dtype == DType::bf16 && !with_bf16) continue;
    Tensor t(dtype, Shape{3, 2});
    for (std::size_t i = 0; i < t.num_bytes(); ++i)
      t.mutable_raw()[i] = static_cast<std::byte>(dtype == DType::boolean ? i % 2 : i * 37 % 251);
    out.push_back({"of/" + std::string(name(dtype)), t});
  }
  out.push_back({"scalar", Tensor::scalar<double>(-0.5)});
  out.push_back({"empty", Tensor(DType::f32, Shape{4, 0, 2})});
  out.push_back({"é \"quoted\"\n", Tensor::vector<float>({1})});
  return out;
}

std::string from_hex(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  return out;
}

class TensorFiles : public ::testing::Test {
 protected:
  void put(const std::string& bytes) {
    if (!files_.exists("/f")) files_.create("/f");
    files_.content("/f") = bytes;
  }
  std::string content() { return files_.content("/f"); }
  template <class F>
  std::string refused(F&& f) {
    return error_of(std::forward<F>(f)).to_string();
  }
  std::string refused_safetensors(const std::string& header, const std::string& elements = "") {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i));
    put(bytes + header + elements);
    return refused([&] {
      SafetensorsFile file(files_, "/f");
      for (const TensorInfo& info : file.tensors()) file.read(info.name);
    });
  }
  std::string refused_npz() {
    return refused([&] {
      NpzFile file(files_, "/f");
      for (const TensorInfo& info : file.tensors()) file.read(info.name);
    });
  }

  MemoryFileSystem files_;
};

TEST_F(TensorFiles, SafetensorsKeepAllDtypesShapesNamesAndMetadata) {
  const auto tensors = examples(true);
  const SafetensorsMetadata metadata = {{"format", "pt"}, {"é", "line\n\"2\""}};
  write_safetensors(files_, "/f", tensors, metadata);
  SafetensorsFile file(files_, "/f");
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const NamedTensor& t : tensors) EXPECT_TRUE(bitwise_equal(file.read(t.name), t.tensor)) << t.name;
  EXPECT_THAT(refused([&] { file.read("gone"); }), StartsWith("not_found: '/f' has no tensor 'gone'; it has 16 "));
}

// Written by safetensors 0.8.0, but for 48 more spaces behind the header.
TEST_F(TensorFiles, SafetensorsHaveTheBytesOfTheReference) {
  using namespace std::string_literals;
  const std::string want =
      "\xf8\0\0\0\0\0\0\0{\"__metadata__\":{\"by\":\"numpy\"},\"n\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":"
      "[0,8]},\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[8,24]},\"b\":{\"dtype\":\"BOOL\",\"shape\":[3]"
      ","
      "\"data_offsets\":[24,27]}}    "s +
      std::string(48, ' ') + "\7\0\0\0\0\0\0\0\0\0\xc0?\0\0\0\xc0\0\0@@\0\0\x80@\1\0\1"s;
  const std::vector<NamedTensor> tensors = {{"w", Tensor::of<float>(Shape{2, 2}, {1.5, -2, 3, 4})},
                                            {"b", Tensor::vector<bool>({true, false, true})},
                                            {"n", Tensor::vector<std::int64_t>({7})}};
  write_safetensors(files_, "/f", tensors, {{"by", "numpy"}});
  EXPECT_EQ(content(), want);
}

// So that they can be mapped.
TEST_F(TensorFiles, SafetensorsOfAMultipleOf64BytesBeginAtOne) {
  const auto sized = [](std::string name, DType dtype, std::int64_t n) {
    return NamedTensor{std::move(name), Tensor::zeros(dtype, Shape{n})};
  };
  for (const char* text : {"", "a", "four", "a text that is longer than all others, and has a number of its own: 7"}) {
    write_safetensors(files_, "/f",
                      std::vector{sized("a", DType::i64, 1), sized("b", DType::u8, 64), sized("c", DType::f32, 16),
                                  sized("d", DType::f32, 1000), sized("e", DType::f64, 24), sized("f", DType::i64, 3)},
                      {{"k", text}});
    std::vector<std::string> order;
    const SafetensorsFile file(files_, "/f");
    for (const TensorInfo& info : file.tensors()) order.push_back(info.name);
    EXPECT_THAT(order, ElementsAre("e", "c", "b", "f", "a", "d"));
    EXPECT_EQ((content().size() - 8 - 24 - 4000) % 64, 0u) << "the elements of 'e' are not aligned";
  }
}

TEST_F(TensorFiles, BadSafetensorsAreRefused) {
  const std::string four(4, '\0');
  const auto header = [](const std::string& text) { return "data_loss: '/f': safetensors header: " + text; };
  EXPECT_EQ(refused_safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four),
            Error().to_string());
  EXPECT_EQ(refused_safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})", four + "x"),
            header("tensor 'a' begins at byte 1 of the elements, expected 0"));
  EXPECT_EQ(refused_safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four + "x"),
            header("its tensors have 4 bytes, but 5 follow the header"));
  EXPECT_EQ(refused_safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", four),
            header("tensor 'a' F32[2] does not fit the 4 bytes of its data_offsets"));
  EXPECT_EQ(refused_safetensors(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})"),
            header("tensor 'a' F32[4611686018427387904,4] does not fit the 0 bytes of its data_offsets"));
  EXPECT_EQ(refused_safetensors(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", four),
            header("'shape' of tensor 'a' has an element that is not an integer in [0, 2^63)"));
  EXPECT_EQ(refused_safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", four),
            header("'data_offsets' of tensor 'a' are not [begin, end]"));
  EXPECT_EQ(refused_safetensors(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", four),
            header("tensor 'a' has an unknown dtype 'F31'"));
  EXPECT_EQ(refused_safetensors(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", four),
            header("tensor 'a' has no 'dtype'"));
  EXPECT_EQ(refused_safetensors(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                R"("a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                                four),
            header("the key 'a' comes twice"));
  EXPECT_EQ(refused_safetensors(R"({"__metadata__":{"k":1}})"), header("'k' in __metadata__ is not a string"));
  EXPECT_EQ(refused_safetensors(R"({"a":{"b":{"c":{}}}})"), header("nested too deeply"));
  EXPECT_EQ(refused_safetensors("[1]"), header("not an object"));
  EXPECT_THAT(refused_safetensors("{\"a\""), StartsWith("data_loss: '/f': safetensors header: not JSON: "));
  EXPECT_EQ(refused_safetensors(R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\1\2"),
            "data_loss: '/f': element 1 of the bool tensor 'a' is 2, neither 0 nor 1");
  EXPECT_EQ(refused_safetensors(R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", "\1\2"),
            "unimplemented: '/f': tensor 'a' has dtype F8_E4M3, which Troupe does not have: convert it to F16 or F32");
  put("\xff\xff\xff\xff\xff\xff\xff\x7f{}");
  EXPECT_THAT(refused([&] { SafetensorsFile(files_, "/f"); }),
              StartsWith("data_loss: '/f': not a safetensors file: a header of 9223372036854775807 bytes"));
  put("abc");
  EXPECT_EQ(refused([&] { SafetensorsFile(files_, "/f"); }), "data_loss: '/f': not a safetensors file: it has 3 bytes");
}

TEST_F(TensorFiles, WhatSafetensorsCannotHoldIsRefusedBeforeAnythingIsWritten) {
  const Tensor x = Tensor::vector<float>({1});
  const auto refusal = [&](std::vector<NamedTensor> tensors) {
    return refused([&] { write_safetensors(files_, "/f", tensors); });
  };
  EXPECT_EQ(refusal({{"x", x}, {"x", x}}), "invalid_argument: cannot write '/f': two tensors have the name 'x'");
  EXPECT_EQ(refusal({{"__metadata__", x}}),
            "invalid_argument: cannot write '/f': a tensor must not be named __metadata__");
  EXPECT_EQ(refusal({{"s", Tensor(DType::string, Shape{1})}}),
            "invalid_argument: cannot write '/f': safetensors has no dtype for tensor 's' of string");
  EXPECT_THAT(refusal({{"\xff", x}}), HasSubstr("is not UTF-8"));
  EXPECT_TRUE(files_.list("/").empty());
}

TEST_F(TensorFiles, NpzKeepsAllDtypesShapesAndNames) {
  const auto tensors = examples(false);
  std::map<std::string, std::size_t> sizes;
  for (const NpzOptions options : {NpzOptions{}, NpzOptions{.compress = true}, NpzOptions{.zip64 = true},
                                   NpzOptions{.compress = true, .zip64 = true}}) {
    write_npz(files_, "/f", tensors, options);
    NpzFile file(files_, "/f");
    ASSERT_EQ(file.tensors().size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(file.tensors()[i].name, tensors[i].name);
      EXPECT_EQ(file.tensors()[i].dtype, tensors[i].tensor.dtype());
      EXPECT_EQ(file.tensors()[i].shape, tensors[i].tensor.shape());
      EXPECT_TRUE(bitwise_equal(file.read(tensors[i].name), tensors[i].tensor)) << tensors[i].name;
    }
  }
  EXPECT_THAT(refused([&] { write_npz(files_, "/g", examples(true)); }),
              StartsWith("unimplemented: cannot write '/g': NumPy has no dtype for tensor 'of/bf16' of bf16: use "));
}

TEST_F(TensorFiles, LargeMembersAreDeflatedInPieces) {
  Tensor x(DType::f32, Shape{1 << 20});
  for (std::int64_t i = 0; i < x.num_elements(); ++i) x.mutable_data<float>()[i] = static_cast<float>(i % 1000);
  const std::vector<NamedTensor> tensors = {{"x", x}};
  write_npz(files_, "/f", tensors, {.compress = true});
  EXPECT_LT(content().size(), x.num_bytes() / 4);
  EXPECT_TRUE(bitwise_equal(NpzFile(files_, "/f").read("x"), x));
}

// np.savez_compressed of NumPy 2: sizes of 64 bits in the member's header only.
TEST_F(TensorFiles, NpzOfNumPyIsRead) {
  put(from_hex(
      "504b03042d0000000800000021002d6f2226ffffffffffffffff05001400772e6e707901001000b0000000000000006600000000"
      "0000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17"
      "672416a402f91ac63a0a269a3a0ab50a64032e063068b007120e4004c40d40bc00880f00f1032066706460100062052036700400"
      "504b01022d032d0000000800000021002d6f222666000000b0000000050000000000000000000000800100000000772e6e7079504b"
      "05060000000001000100330000009d0000000000"));
  NpzFile file(files_, "/f");
  Tensor want(DType::f32, Shape{3, 4});
  for (int i = 0; i < 12; ++i) want.mutable_data<float>()[i] = static_cast<float>(i);
  EXPECT_TRUE(bitwise_equal(file.read("w"), want));
}

TEST_F(TensorFiles, DamagedNpzIsRefused) {
  const std::vector<NamedTensor> tensors = {{"x", Tensor::vector<float>({1, 2, 3})}};
  write_npz(files_, "/f", tensors);
  const std::string good = content();
  const std::size_t element = good.find(std::string("\0\0\x80\x3f", 4));
  std::string bad = good;
  bad[element] = 1;
  put(bad);
  EXPECT_THAT(refused_npz(), StartsWith("data_loss: '/f': zip archive: 'x.npy' has checksum "));
  put(good.substr(0, good.size() - 1));
  EXPECT_THAT(refused_npz(), HasSubstr("no end record in 247 bytes: not a zip archive, or cut short"));
  put("");
  EXPECT_THAT(refused_npz(), HasSubstr("no end record in 0 bytes"));
  bad = good;
  const std::size_t directory = good.find("PK\1\2");
  bad[directory + 10] = 12;
  put(bad);
  EXPECT_EQ(refused_npz(),
            "unimplemented: '/f': 'x.npy' is packed by method 12; supported are 0 (stored) and 8 (deflated)");
  bad = good;
  bad[directory + 8] = 1;
  put(bad);
  EXPECT_EQ(refused_npz(), "unimplemented: '/f': 'x.npy' is encrypted, which is not supported");
  bad = good;
  bad[directory + 24] ^= 1;
  put(bad);
  EXPECT_EQ(refused_npz(),
            "data_loss: '/f': zip archive: 'x.npy' is stored, but has 140 bytes packed and 141 unpacked");
  bad = good;
  bad[directory + 45] = 1;
  put(bad);
  EXPECT_EQ(refused_npz(), "data_loss: '/f': zip archive: 'x.npy' ends outside the members");
  bad = good;
  bad[good.size() - 22 + 10] = 2;
  put(bad);
  EXPECT_EQ(refused_npz(), "data_loss: '/f': zip archive: its directory has 1 entries, but 2 are announced");

  write_npz(files_, "/f", tensors, {.compress = true});
  const std::string packed = content();
  bad = packed;
  bad[bad.find("PK\1\2") + 27] = 1;  // 16 MiB
  put(bad);
  EXPECT_THAT(refused_npz(), HasSubstr(" cannot unpack to 16777356"));
  bad = packed;
  bad[40] ^= 0x55;
  put(bad);
  EXPECT_THAT(refused_npz(), StartsWith("data_loss: '/f': zip archive: 'x.npy' "));
}

std::string npy(const std::string& header, const std::string& elements) {
  std::string out = "\x93NUMPY\x01";
  out += {0, static_cast<char>(header.size()), 0};
  return out + header + elements;
}

TEST_F(TensorFiles, NpyIsReadInBothOrdersOfBytesAndDimensions) {
  using namespace std::string_literals;
  const Tensor want = Tensor::of<std::int16_t>(Shape{2, 3}, {0, 1, 2, 3, 4, 5});
  // Written by NumPy: np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)).
  put(npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }       \n", "\0\0\0\3\0\1\0\4\0\2\0\5"s));
  EXPECT_TRUE(bitwise_equal(read_npy(files_, "/f"), want));
  put(npy("{\"shape\":(2L,3L),'fortran_order':False,'descr':\"<i2\"}", "\0\0\1\0\2\0\3\0\4\0\5\0"s));
  EXPECT_TRUE(bitwise_equal(read_npy(files_, "/f"), want));
  write_npy(files_, "/f", want);
  EXPECT_EQ(content().size(), 64u + 64 + 12);
  EXPECT_TRUE(bitwise_equal(read_npy(files_, "/f"), want));
}

TEST_F(TensorFiles, BadNpyIsRefused) {
  const auto of = [&](const std::string& header, const std::string& elements = "1234") {
    put(npy(header, elements));
    return refused([&] { read_npy(files_, "/f"); });
  };
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"), Error().to_string());
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"),
            "data_loss: '/f': byte 67: <f4[2] needs 8 bytes, but 4 follow the header");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)"),
            "data_loss: '/f': .npy header: no ',' or '}' at character 54");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }"),
            "data_loss: '/f': .npy header: 'fortran_order' is neither True nor False");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"),
            "data_loss: '/f': .npy header: no dimension at character 51");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }"),
            "data_loss: '/f': .npy header: the number of elements of [4611686018427387904,4] overflows 63 bits");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, }"),
            "data_loss: '/f': .npy header: it needs 'descr', 'fortran_order' and 'shape'");
  EXPECT_EQ(of("{'descr': '<f4', 'descr': '<f4'}"), "data_loss: '/f': .npy header: an unexpected key 'descr'");
  EXPECT_EQ(of("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
            "unimplemented: '/f': Troupe has no dtype for NumPy's '|O': convert the array");
  EXPECT_EQ(of("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }"),
            "unimplemented: '/f': Troupe has no dtype for NumPy's '<U1': convert the array");
  EXPECT_EQ(of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"),
            "unimplemented: '/f': arrays of records are not supported: save their fields as arrays");
  put("\x93NUMPY\x09" + std::string(200, 0));
  EXPECT_EQ(refused([&] { read_npy(files_, "/f"); }),
            "unimplemented: '/f': byte 6: .npy version 9.0; Troupe reads 1 to 3");
  put(std::string(200, 'x'));
  EXPECT_EQ(refused([&] { read_npy(files_, "/f"); }),
            "data_loss: '/f': byte 0: not an .npy file: its magic number is missing");
}

TEST_F(TensorFiles, ACrashLeavesTheOldFileOrTheNew) {
  const std::vector<NamedTensor> before = {{"x", Tensor::scalar<float>(1)}}, after = {{"x", Tensor::scalar<float>(2)}};
  using Write = void (*)(FileSystem&, const std::vector<NamedTensor>&);
  using Read = Tensor (*)(FileSystem&);
  const std::pair<Write, Read> formats[] = {
      {[](FileSystem& files, const std::vector<NamedTensor>& t) { write_safetensors(files, "/f", t); },
       [](FileSystem& files) { return SafetensorsFile(files, "/f").read("x"); }},
      {[](FileSystem& files, const std::vector<NamedTensor>& t) { write_npz(files, "/f", t); },
       [](FileSystem& files) { return NpzFile(files, "/f").read("x"); }},
      {[](FileSystem& files, const std::vector<NamedTensor>& t) { write_npy(files, "/f", t[0].tensor); },
       [](FileSystem& files) { return read_npy(files, "/f"); }}};
  for (const auto& [write, read] : formats) {
    bool ended = false;
    for (std::uint64_t point = 0; !ended; ++point) {
      ASSERT_LT(point, 100u);
      MemoryFileSystem disk;
      write(disk, before);
      disk.start_counting();
      disk.crash_at = point;
      ended = error_of([&] { write(disk, after); }).code() == Code::ok;
      for (const Survives survives : {Survives::nothing, Survives::names, Survives::content, Survives::everything}) {
        MemoryFileSystem left = disk.after_crash(survives);
        const float value = read(left).item<float>();
        EXPECT_TRUE(value == 2 || (value == 1 && !ended)) << point;
      }
    }
  }
}

TEST_F(TensorFiles, TensorsAreTakenOneByOne) {
  std::vector<std::string> order;
  TensorSource source;
  for (const char* n : {"a", "b", "c"}) source.infos.push_back({.name = n, .dtype = DType::f32, .shape = Shape{2}});
  source.tensor = [&](std::size_t i) {
    order.push_back(source.infos[i].name);
    return Tensor::vector<float>({static_cast<float>(i), 0});
  };
  write_safetensors(files_, "/f", source);
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(SafetensorsFile(files_, "/f").read("c").data<float>()[0], 2);
  source.infos[1].shape = Shape{3};
  for (const bool npz : {false, true})
    EXPECT_EQ(refused([&] { npz ? write_npz(files_, "/g", source) : write_safetensors(files_, "/g", source); }),
              "invalid_argument: cannot write '/g': tensor 'b' is f32[2], but was announced as f32[3] on the host");
  EXPECT_FALSE(files_.exists("/g"));
}

}  // namespace
}  // namespace troupe::testing
