// Manifests whose checksum is right and whose content is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "messages/proto/checkpoint.pb.h"
#include "tests/actors/checkpoint/example.hpp"
#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include <troupe/devices/storage/crc32c.hpp>

namespace troupe {
namespace {

using testing::error_of;
using testing::Example;
using ::testing::HasSubstr;
using testing::MemoryFileSystem;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
const std::string kFolder = checkpoint_folder("/c", 1);

// A manifest's bytes around `body`, checksum and all.
std::string manifest_of(const std::string& body, std::uint32_t format = 1) {
  const auto little = [](std::uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
    return out;
  };
  const std::string head = "TRPCHKPT" + little(format, 4), tail = little(body.size(), 8) + body;
  return head + little(crc32c(head + tail), 4) + tail;
}

class Hostile : public ::testing::Test {
 protected:
  Hostile() {
    Example(1).save(files_, "/c", {1, 1}, 2);
    manifest_ = open_checkpoint(files_, kFolder).manifest();
  }
  Error open_with(const std::string& bytes) {
    files_.content(kFolder + "/MANIFEST") = bytes;
    return error_of([&] { open_checkpoint(files_, kFolder).verify(); });
  }
  TensorEntry& entry(CheckpointManifest& manifest, std::string_view name) {
    for (ShardManifest& shard : manifest.shards)
      for (TensorEntry& tensor : shard.tensors)
        if (tensor.name == name) return tensor;
    throw std::logic_error("no such tensor");
  }

  MemoryFileSystem files_;
  CheckpointManifest manifest_;
};

TEST_F(Hostile, ContradictionsAreRefused) {
  using Change = std::function<void(CheckpointManifest&)>;
  const auto tensor = [this](std::string name, std::function<void(TensorEntry&)> change) {
    return [=, this](CheckpointManifest& manifest) { change(entry(manifest, name)); };
  };
  // The second part of the kernel, and of how many rows both are said to be.
  const auto second_part = [](std::int64_t begin, std::int64_t rows) {
    return [=](CheckpointManifest& manifest) {
      for (ShardManifest& shard : manifest.shards)
        for (TensorEntry& e : shard.tensors)
          if (e.name == "dense/kernel") {
            e.rows = rows;
            if (e.row_begin > 0) e.row_begin = begin, e.row_end = rows;
          }
    };
  };
  const auto of_another = [this](CheckpointManifest& manifest) {
    TensorEntry& e = entry(manifest, "dense/kernel");
    const TensorEntry& other = entry(manifest, "dense/kernel/m");
    e.offset = other.offset, e.crc32c = other.crc32c;
  };
  const std::vector<std::pair<std::string, Change>> changes = {
      {"a row too few", second_part(6, 11)},
      {"a row twice", second_part(4, 9)},
      {"the bytes of another", of_another},
      {"begins behind the file", tensor("counts", [](auto& e) { e.offset = 1 << 20; })},
      {"offset that overflows", tensor("counts", [](auto& e) { e.offset = kMost - 63; })},
      {"more bytes than the file", tensor("counts", [](auto& e) { e.bytes = kMost; })},
      {"fewer elements than bytes", tensor("counts",
                                           [](auto& e) {
                                             e.shape = Shape{2, 1};
                                           })},
      {"more elements than bytes", tensor("counts",
                                          [](auto& e) {
                                            e.shape = Shape{2, 3};
                                          })},
      {"bytes that do not fit", tensor("counts", [](auto& e) { e.bytes -= 1; })},
      {"elements that overflow", tensor("counts",
                                        [](auto& e) {
                                          e.shape = Shape{2, kHuge};
                                        })},
      {"bytes that overflow", tensor("counts",
                                     [](auto& e) {
                                       e.shape = Shape{2, kHuge / 4};
                                     })},
      {"rows that overflow", tensor("dense/kernel",
                                    [](auto& e) {
                                      e.row_begin = -kHuge;
                                      e.row_end = kHuge;
                                    })},
      {"rows of a huge whole", tensor("dense/kernel", [](auto& e) { e.rows = kHuge; })},
      {"more rows than the whole", tensor("dense/kernel", [](auto& e) { e.rows = 3; })},
      {"rows moved", tensor("dense/kernel",
                            [](auto& e) {
                              e.row_begin += 1;
                              e.row_end += 1;
                            })},
      {"a scalar of many rows", tensor("scale", [](auto& e) { e.rows = 2; })},
      {"another dtype", tensor("dense/kernel", [](auto& e) { e.dtype = DType::i32; })},
      {"a dtype that is none", tensor("scale", [](auto& e) { e.dtype = static_cast<DType>(99); })},
      {"a resource", tensor("empty", [](auto& e) { e.dtype = DType::resource; })},
      {"a kind that is none", tensor("scale", [](auto& e) { e.kind = static_cast<TensorKind>(4); })},
      {"another kind", tensor("dense/kernel", [](auto& e) { e.kind = TensorKind::slot; })},
      {"a part of a state", tensor("seen", [](auto& e) { e.rows = 3; })},
      {"more strings than bytes", tensor("labels",
                                         [](auto& e) {
                                           e.shape = Shape{kHuge / 64};
                                           e.rows = e.row_end = kHuge / 64;
                                         })},
      {"fewer strings than there are", tensor("labels",
                                              [](auto& e) {
                                                e.shape = Shape{1};
                                                e.rows = e.row_end = 1;
                                              })},
      {"a name that is none", tensor("counts", [](auto& e) { e.name = ""; })},
      {"a name without end", tensor("counts", [](auto& e) { e.name.assign(5000, 'x'); })},
      {"a name twice", tensor("counts", [](auto& e) { e.name = "scale"; })},
      {"a checksum of another", tensor("counts", [](auto& e) { e.crc32c += 1; })},
      {"a file elsewhere", [](auto& m) { m.shards[0].file = "shard-0/file"; }},
      {"a file with an end in it", [](auto& m) { m.shards[0].file += std::string("\0x", 2); }},
      {"a file of no shard", [](auto& m) { m.shards[0].file = "MANIFEST"; }},
      {"a file of no bytes", [](auto& m) { m.shards[0].bytes = 0; }},
      {"a file of all bytes", [](auto& m) { m.shards[0].bytes = kMost; }},
      {"a shard twice", [](auto& m) { m.shards[1].shard = 0; }},
      {"a shard too few", [](auto& m) { m.shards.pop_back(); }},
      {"no shards", [](auto& m) { m.shards.clear(); }},
      {"another version", [](auto& m) { m.id.version = 2; }},
  };
  files_.make_directory(kFolder + "/shard-0");
  files_.create(kFolder + "/shard-0/file");
  files_.content(kFolder + "/shard-0/file") = files_.content(join_path(kFolder, manifest_.shards[0].file));
  for (const auto& [what, change] : changes) {
    CheckpointManifest changed = manifest_;
    change(changed);
    ASSERT_NE(changed, manifest_) << what;
    const Error error = open_with(encode_manifest(changed));
    EXPECT_EQ(error.code(), Code::data_loss) << what << ": " << error.to_string();
    EXPECT_THAT(error.message(), HasSubstr(kFolder)) << what;
  }
  EXPECT_FALSE(open_with(encode_manifest(manifest_)));
}

TEST_F(Hostile, ABoolThatIsNoneIsRefused) {
  CheckpointManifest changed = manifest_;
  TensorEntry& flags = entry(changed, "flags");
  const auto shard =
      std::ranges::find_if(changed.shards, [&](const auto& s) { return std::ranges::count(s.tensors, flags) > 0; });
  std::string& content = files_.content(join_path(kFolder, shard->file));
  content[flags.offset] = 2;
  flags.crc32c = crc32c(std::string_view(content).substr(flags.offset, flags.bytes));
  EXPECT_THAT(open_with(encode_manifest(changed)).to_string(),
              HasSubstr("variable 'flags' has bytes other than 0 and 1"));
}

TEST_F(Hostile, DimensionsOfAnyKindAreRefused) {
  for (const auto& [rank, dim] : std::vector<std::pair<int, std::int64_t>>{{9, 1}, {1000, 1}, {1, -1}, {2, -5}}) {
    proto::CheckpointManifest message;
    auto& tensor = *message.add_shard()->add_tensor();
    tensor.set_name("w");
    for (int i = 0; i < rank; ++i) tensor.add_dim(dim);
    EXPECT_EQ(open_with(manifest_of(message.SerializeAsString())).code(), Code::data_loss) << rank << " " << dim;
  }
}

TEST_F(Hostile, EntriesThatSayNothingAreCountedBeforeTheyAreMade) {
  std::string shards, tensors;
  for (int i = 0; i < 300'000; ++i) {
    shards += std::string("\x32\0", 2);   // field 6, no bytes
    tensors += std::string("\x22\0", 2);  // field 4
  }
  std::string shard = "\x32" + std::string("\xc0\xcf\x24", 3);  // field 6 of 600,000 bytes
  EXPECT_THAT(open_with(manifest_of(shards)).message(), HasSubstr("of at most 262144 entries"));
  EXPECT_THAT(open_with(manifest_of(shard + tensors)).message(), HasSubstr("of at most 262144 entries"));
  EXPECT_EQ(error_of([&] { decode_shard_manifest(tensors); }).code(), Code::data_loss);
}

TEST_F(Hostile, AManifestLargerThanAnyIsNotRead) {
  EXPECT_THAT(open_with(std::string(kMaxManifestBytes + 1, 'x')).to_string(), HasSubstr("more than 33554432"));
}

TEST_F(Hostile, AFormatOfTheFutureIsNotTakenForDamage) {
  const std::string bytes = encode_manifest(manifest_);
  const Error error = open_with(manifest_of(bytes.substr(24), 2));
  EXPECT_EQ(error.to_string(),
            "unimplemented: '" + kFolder + "/MANIFEST': format 2 is not supported, expected 1: use a later Troupe");
  EXPECT_EQ(error_of([&] { newest_whole_checkpoint(files_, "/c"); }).code(), Code::unimplemented);
}

TEST_F(Hostile, BytesOfAnyKindAreRefusedOrHarmless) {
  const std::string body = encode_manifest(manifest_).substr(24);
  std::mt19937_64 random(1);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = body;
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % changed.size();
      if (random() % 4 == 0)
        changed.erase(at, random() % 4);
      else
        changed[at] = static_cast<char>(random());
    }
    const Error error = open_with(manifest_of(changed));  // what changes a setting or a figure cannot be seen
    EXPECT_TRUE(!error || error.code() == Code::data_loss) << error.to_string();
    refused += error ? 1 : 0;
  }
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace troupe
