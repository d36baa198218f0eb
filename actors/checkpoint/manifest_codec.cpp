// The encoding of manifests. Their contents are checked in manifest.cpp.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>

#include <limits>

#include "messages/proto/checkpoint.pb.h"
#include <troupe/actors/checkpoint/manifest.hpp>
#include <troupe/devices/storage/crc32c.hpp>
#include <troupe/messages/body_codec.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using google::protobuf::io::CodedInputStream;

constexpr std::string_view kMagic = "TRPCHKPT";
constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kHeader = 24;
constexpr std::size_t kCrcAt = 12;
constexpr int kMaxEntries = 1 << 18;  // tensors and shards of a manifest

proto::CheckpointShard to_proto(const ShardManifest& shard) {
  proto::CheckpointShard out;
  out.set_shard(shard.shard);
  out.set_file(shard.file);
  out.set_bytes(shard.bytes);
  out.set_dedupe(shard.dedupe);
  for (const TensorEntry& entry : shard.tensors) {
    proto::CheckpointTensor& tensor = *out.add_tensor();
    tensor.set_name(entry.name);
    tensor.set_kind(static_cast<std::uint32_t>(entry.kind));
    tensor.set_variable(entry.variable);
    tensor.set_dtype(static_cast<std::uint32_t>(entry.dtype));
    for (const std::int64_t dim : entry.shape.dims()) tensor.add_dim(dim);
    tensor.set_rows(entry.rows);
    tensor.set_row_begin(entry.row_begin);
    tensor.set_row_end(entry.row_end);
    tensor.set_offset(entry.offset);
    tensor.set_bytes(entry.bytes);
    tensor.set_crc32c(entry.crc32c);
    if (entry.stride != 1) tensor.set_stride(entry.stride);
    tensor.set_listed(entry.listed);
  }
  return out;
}

// Returns 0 for a value that does not fit: no kind or dtype has that number.
std::uint8_t small(std::uint32_t value) { return value > 0xff ? 0 : static_cast<std::uint8_t>(value); }

ShardManifest from_proto(const proto::CheckpointShard& shard) {
  ShardManifest out{shard.shard(), shard.file(), shard.bytes(), {}, shard.dedupe()};
  out.tensors.reserve(static_cast<std::size_t>(shard.tensor_size()));
  for (const proto::CheckpointTensor& tensor : shard.tensor()) {
    if (tensor.dim_size() > kMaxRank) fail(Code::data_loss, "'{}' has {} dimensions", tensor.name(), tensor.dim_size());
    for (const std::int64_t dim : tensor.dim())
      if (dim < 0) fail(Code::data_loss, "'{}' has a dimension of {}", tensor.name(), dim);
    out.tensors.push_back({tensor.name(), static_cast<TensorKind>(small(tensor.kind())), tensor.variable(),
                           static_cast<DType>(small(tensor.dtype())),
                           Shape(std::span(tensor.dim().data(), static_cast<std::size_t>(tensor.dim_size()))),
                           tensor.rows(), tensor.row_begin(), tensor.row_end(), tensor.offset(), tensor.bytes(),
                           tensor.crc32c(), tensor.stride() == 0 ? 1 : tensor.stride(), tensor.listed()});
  }
  return out;
}

// An empty entry takes two bytes in a file and a hundred in memory, so entries are counted before any is made.
// `shards`: `in` has the fields of a manifest, else those of a shard.
bool few_entries(CodedInputStream& in, bool shards, int& left) {
  const int field =
      shards ? int{proto::CheckpointManifest::kShardFieldNumber} : int{proto::CheckpointShard::kTensorFieldNumber};
  const std::uint32_t entry = static_cast<std::uint32_t>(field) << 3 | 2;
  while (const std::uint32_t tag = in.ReadTag()) {
    int length = 0;
    if ((tag & 7) == 0) {
      std::uint64_t ignored = 0;
      if (!in.ReadVarint64(&ignored)) return false;
    } else if ((tag & 7) == 1 || (tag & 7) == 5) {
      if (!in.Skip((tag & 7) == 1 ? 8 : 4)) return false;
    } else if ((tag & 7) != 2 || !in.ReadVarintSizeAsInt(&length)) {
      return false;
    } else if (tag != entry) {
      if (!in.Skip(length)) return false;
    } else {
      if (--left < 0) return false;
      const auto limit = in.PushLimit(length);
      if (shards ? !few_entries(in, false, left) : !in.Skip(length)) return false;
      if (in.BytesUntilLimit() != 0) return false;
      in.PopLimit(limit);
    }
  }
  return true;
}

template <class Message>
Message parse(std::string_view bytes, bool shards) {
  Message message;
  const google::protobuf::LogSilencer silence;  // the caller reports malformed input
  int left = kMaxEntries;
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  if (!few_entries(in, shards, left) || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(Code::data_loss, "{} bytes are not a manifest of at most {} entries", bytes.size(), kMaxEntries);
  return message;
}

std::uint32_t crc_of(std::string_view manifest) {
  const auto bytes = std::as_bytes(std::span(manifest));
  return crc32c(bytes.subspan(kCrcAt + 4), crc32c(bytes.first(kCrcAt)));
}

}  // namespace

std::string encode(const ShardManifest& manifest) { return to_proto(manifest).SerializeAsString(); }

ShardManifest decode_shard_manifest(std::string_view bytes) {
  if (bytes.size() > kMaxManifestBytes) fail(Code::data_loss, "the manifest of a shard has {} bytes", bytes.size());
  return from_proto(parse<proto::CheckpointShard>(bytes, false));
}

std::string encode_manifest(const CheckpointManifest& manifest) {
  proto::CheckpointManifest message;
  message.set_version(manifest.id.version);
  message.set_attempt(manifest.id.attempt);
  message.set_settings(manifest.settings);
  message.set_fingerprint(manifest.fingerprint);
  const CheckpointJob& job = manifest.job;
  proto::CheckpointJob& out = *message.mutable_job();
  out.set_mode(job.mode);
  out.set_slots(job.slots);
  out.set_batch(job.batch);
  out.set_seed(job.seed);
  out.set_staleness(job.staleness);
  out.set_epochs(job.epochs);
  out.set_epoch(job.epoch);
  out.set_steps_per_epoch(job.steps_per_epoch);
  out.set_cursor(job.cursor);
  out.set_examples(job.examples);
  out.set_training_ns(job.training_ns);
  out.set_extra(job.extra);
  for (const ShardManifest& shard : manifest.shards) *message.add_shard() = to_proto(shard);

  const std::string body = message.SerializeAsString();
  if (body.size() > kMaxManifestBytes - kHeader)
    fail(Code::resource_exhausted, "the manifest of checkpoint {} has {} bytes, more than the limit of {}",
         manifest.id.version, body.size() + kHeader, kMaxManifestBytes);
  std::string bytes(kMagic);
  append_little_endian(bytes, kFormat);
  append_little_endian(bytes, std::uint32_t{0});
  append_little_endian(bytes, static_cast<std::uint64_t>(body.size()));
  bytes += body;
  std::string crc;
  append_little_endian(crc, crc_of(bytes));
  return bytes.replace(kCrcAt, 4, crc);
}

CheckpointManifest decode_manifest(std::string_view bytes) {
  if (bytes.size() < kHeader || !bytes.starts_with(kMagic)) fail(Code::data_loss, "not a manifest: wrong magic bytes");
  if (bytes.size() > kMaxManifestBytes)
    fail(Code::data_loss, "it has {} bytes, more than {}", bytes.size(), kMaxManifestBytes);
  if (read_little_endian<std::uint32_t>(bytes.data() + kCrcAt) != crc_of(bytes))
    fail(Code::data_loss, "crc32c mismatch");
  const auto format = read_little_endian<std::uint32_t>(bytes.data() + kMagic.size());
  if (format != kFormat)
    fail(Code::unimplemented, "format {} is not supported, expected {}: use a later Troupe", format, kFormat);
  if (read_little_endian<std::uint64_t>(bytes.data() + kCrcAt + 4) != bytes.size() - kHeader)
    fail(Code::data_loss, "wrong length");

  const auto message = parse<proto::CheckpointManifest>(bytes.substr(kHeader), true);
  const proto::CheckpointJob& job = message.job();
  CheckpointManifest out;
  out.id = {message.version(), message.attempt()};
  out.settings = message.settings();
  out.fingerprint = message.fingerprint();
  out.job = {job.mode(),  job.slots(),           job.batch(),  job.seed(),     job.staleness(),   job.epochs(),
             job.epoch(), job.steps_per_epoch(), job.cursor(), job.examples(), job.training_ns(), job.extra()};
  out.shards.reserve(static_cast<std::size_t>(message.shard_size()));
  for (const proto::CheckpointShard& shard : message.shard()) out.shards.push_back(from_proto(shard));
  return out;
}

}  // namespace troupe
