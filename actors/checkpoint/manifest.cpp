#include "troupe/actors/checkpoint/manifest.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMaxName = 4096;

template <class... Args>
[[noreturn]] void damaged(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(Code::data_loss, fmt::format(format, std::forward<Args>(args)...));
}

std::int64_t rows_in(const TensorEntry& entry) {
  const std::int64_t range = entry.row_end - entry.row_begin;
  return range / entry.stride + (range % entry.stride != 0);
}

std::string rows_text(const TensorEntry& entry) {
  return fmt::format("[{}, {}){}", entry.row_begin, entry.row_end,
                     entry.stride == 1 ? "" : fmt::format(" step {}", entry.stride));
}

void check_rows(const TensorEntry& entry) {
  const std::int64_t own = entry.shape.rank() == 0 ? 1 : entry.shape[0];
  if (entry.shape.rank() == 0 && entry.rows != 1) damaged("a scalar is declared as one of {} rows", entry.rows);
  if (entry.listed) {
    if (entry.shape.rank() == 0 || own > entry.rows || entry.row_begin != 0 || entry.row_end != entry.rows ||
        entry.stride != 1 || entry.kind == TensorKind::state)
      damaged("shape {} does not match listed rows of {}", entry.shape.to_string(), rows_text(entry));
    return;
  }
  if (entry.stride < 1 || entry.row_begin < 0 || entry.row_end < entry.row_begin || entry.row_end > entry.rows ||
      rows_in(entry) != own)
    damaged("shape {} does not match rows {} of {}", entry.shape.to_string(), rows_text(entry), entry.rows);
  // The parts of a tensor that is dealt out: row i of the whole is in part i mod stride.
  if (entry.stride > 1 && (entry.row_begin >= entry.stride || entry.row_end != entry.rows))
    damaged("rows {} of {} are not every {}th from one of the first on", rows_text(entry), entry.rows, entry.stride);
  if (entry.kind == TensorKind::state && own != entry.rows) damaged("a state tensor must be whole, not a part");
}

void check_entry(const TensorEntry& entry, std::uint64_t offset, std::uint64_t file_bytes) {
  if (entry.name.empty() || entry.name.size() > kMaxName || entry.variable.size() > kMaxName)
    damaged("the name has {} bytes", std::max(entry.name.size(), entry.variable.size()));
  if (entry.kind < TensorKind::variable || entry.kind > TensorKind::state)
    damaged("unknown tensor kind {}", static_cast<int>(entry.kind));
  if (!is_data(entry.dtype)) damaged("unknown dtype {}", static_cast<int>(entry.dtype));
  if (!entry.shape.fully_known()) damaged("shape {} is not fully known", entry.shape.to_string());
  check_rows(entry);
  std::uint64_t wanted = 0;
  try {
    wanted = entry.dtype == DType::string ? static_cast<std::uint64_t>(entry.shape.num_elements())
                                          : checked_bytes(entry.dtype, entry.shape);
  } catch (const Error& error) {
    damaged("{}", error.message());
  }
  if (entry.dtype == DType::string ? entry.bytes / 4 < wanted : entry.bytes != wanted)
    damaged("{} bytes do not match {}{}", entry.bytes, name(entry.dtype), entry.shape.to_string());
  if (entry.offset != offset || entry.offset > file_bytes || entry.bytes > file_bytes - entry.offset)
    damaged("{} bytes at offset {} are misplaced in a file of {} bytes", entry.bytes, entry.offset, file_bytes);
}

void check_shard(const ShardManifest& shard) {
  if (!shard.file.starts_with("shard-") || shard.file.find_first_of(std::string_view("/\0", 2)) != std::string::npos ||
      shard.file.size() > 255)
    damaged("shard {} has an invalid file name", shard.shard);
  std::uint64_t offset = 0;
  for (const TensorEntry& entry : shard.tensors) {
    try {
      check_entry(entry, offset, shard.bytes);
    } catch (const Error& error) {
      throw error.within(fmt::format("{} '{}' of '{}'", name(entry.kind), entry.name, shard.file));
    }
    const std::uint64_t end = entry.offset + entry.bytes;
    if (end > shard.bytes / kTensorAlignment * kTensorAlignment)
      damaged("'{}': the file of {} bytes ends before '{}'", shard.file, shard.bytes, entry.name);
    offset = aligned(end);
  }
  if (offset != shard.bytes) damaged("'{}': tensors take {} bytes, expected {}", shard.file, offset, shard.bytes);
}

void add_part(StoredVariables& variables, const ShardManifest& shard, std::size_t tensor) {
  const TensorEntry& entry = shard.tensors[tensor];
  Shape whole = entry.shape;
  if (whole.rank() > 0) whole.set_dim(0, entry.rows);
  const auto [at, added] = variables.try_emplace(entry.name);
  StoredVariable& stored = at->second;
  if (added)
    stored = {entry.kind, entry.variable, entry.dtype, whole, entry.rows, {}, entry.listed};
  else if (stored.listed != entry.listed || stored.kind != entry.kind || stored.variable != entry.variable ||
           stored.dtype != entry.dtype || stored.shape != whole)
    damaged("the parts of '{}' belong to different variables: {}{} of {}, {}{} of '{}'", entry.name, name(stored.dtype),
            stored.shape.to_string(), stored.variable, name(entry.dtype), whole.to_string(), shard.file);
  stored.parts.push_back({shard.shard, tensor});
}

void check_cover(const std::string& name, StoredVariable& stored, const CheckpointManifest& manifest) {
  const auto entry = [&](const StoredVariable::Part& part) -> const TensorEntry& {
    return manifest.shards[part.shard].tensors[part.tensor];
  };
  if (stored.listed) return;
  std::ranges::sort(stored.parts, {},
                    [&](const auto& part) { return std::pair(entry(part).row_begin, entry(part).row_end); });
  std::int64_t next = 0;
  if (const std::int64_t stride = entry(stored.parts.front()).stride; stride > 1) {
    for (const StoredVariable::Part& part : stored.parts)
      if (entry(part).stride != stride || entry(part).row_begin != next++)
        damaged("rows {} of '{}' are not those of part {} of {}", rows_text(entry(part)), name, next - 1, stride);
    if (next != stride) damaged("'{}' has {} parts of {}", name, next, stride);
    return;
  }
  for (const StoredVariable::Part& part : stored.parts) {
    const TensorEntry& rows = entry(part);
    if (rows.stride != 1) damaged("rows {} of '{}' are among parts without a step", rows_text(rows), name);
    if (rows.row_begin > next) damaged("rows [{}, {}) of '{}' are on no shard", next, rows.row_begin, name);
    if (rows.row_begin < next) damaged("rows from {} of '{}' are stored twice", rows.row_begin, name);
    next = rows.row_end;
  }
  if (next != stored.rows) damaged("rows [{}, {}) of '{}' are on no shard", next, stored.rows, name);
}

}  // namespace

StoredVariables check(const CheckpointManifest& manifest) {
  StoredVariables variables;
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    const ShardManifest& shard = manifest.shards[i];
    if (shard.shard != i) damaged("found shard {}, expected shard {}", shard.shard, i);
    check_shard(shard);
    std::set<std::string_view> states;
    for (std::size_t t = 0; t < shard.tensors.size(); ++t) {
      const TensorEntry& entry = shard.tensors[t];
      if (entry.kind != TensorKind::state)
        add_part(variables, shard, t);
      else if (!states.insert(entry.name).second)
        damaged("'{}' has state '{}' twice", shard.file, entry.name);
    }
  }
  if (manifest.shards.empty()) damaged("the checkpoint has no shards");
  for (auto& [name, stored] : variables) check_cover(name, stored, manifest);
  return variables;
}

std::string checkpoint_folder(std::string_view directory, std::uint64_t version) {
  return join_path(directory, fmt::format("checkpoint-{:012}", version));
}

std::string shard_file_name(std::uint32_t shard, std::uint32_t shards, std::uint64_t attempt) {
  return fmt::format("shard-{:05}-of-{:05}-{:016x}", shard, shards, attempt);
}

std::string_view name(TensorKind kind) {
  switch (kind) {
    case TensorKind::variable:
      return "variable";
    case TensorKind::slot:
      return "slot";
    case TensorKind::state:
      return "state";
  }
  return "tensor";
}

}  // namespace troupe
