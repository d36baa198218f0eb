#include "troupe/graph/passes/shard_map.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include <troupe/messages/tensor.hpp>

namespace troupe {
namespace {

std::int64_t bytes_of_slice(const Slice& slice) {
  return static_cast<std::int64_t>(checked_bytes(slice.dtype, slice.shape));
}

// FNV-1a, 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv).
class Fnv1a {
 public:
  void byte(std::uint8_t b) { hash_ = (hash_ ^ b) * 0x100000001b3ull; }
  void number(std::int64_t value) {
    for (int i = 0; i < 8; ++i) byte(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
  void text(std::string_view text) {
    number(static_cast<std::int64_t>(text.size()));
    for (char c : text) byte(static_cast<std::uint8_t>(c));
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ull;
};

}  // namespace

ShardMap::ShardMap(std::vector<VariableSpec> variables, int num_shards)
    : num_shards_(num_shards), variables_(std::move(variables)) {
  if (num_shards < 1) invalid_argument("a shard map needs at least one shard, not {}", num_shards);
  std::ranges::sort(variables_, {}, &VariableSpec::name);
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const VariableSpec& v = variables_[i];
    if (!is_valid(v.dtype) || v.dtype == DType::string || v.dtype == DType::resource)
      invalid_argument("variable '{}': a shard cannot hold dtype {}", v.name, troupe::name(v.dtype));
    if (!v.shape.fully_known())
      invalid_argument("variable '{}': its shape {} must be fully known to be sharded", v.name, v.shape.to_string());
    const std::size_t begin = slices_.size();
    try {
      cut(v);
    } catch (const Error& error) {
      throw error.within(fmt::format("variable '{}'", v.name));
    }
    if (!first_.emplace(v.name, Range{i, begin, slices_.size()}).second)
      invalid_argument("variable '{}' appears twice in the shard map", v.name);
  }
  for (std::size_t i = 0; i < slices_.size(); ++i) slices_[i].id = static_cast<std::uint32_t>(i);
  assign();
}

void ShardMap::cut(const VariableSpec& v) {
  const auto bytes = static_cast<std::int64_t>(checked_bytes(v.dtype, v.shape));
  const std::int64_t rows = v.shape.is_scalar() ? 1 : v.shape.dim(0);
  std::int64_t pieces = 1;
  std::int64_t unit = 1;  // rows whose bytes are a multiple of the alignment
  if (bytes > kWholeVariableBytes && !v.whole && v.by_rows)
    return deal_out(v, std::min<std::int64_t>(num_shards_, rows));
  if (bytes > kWholeVariableBytes && !v.whole) {
    unit = kSliceAlignment / std::gcd(kSliceAlignment, bytes / rows);
    const std::int64_t units = rows / unit + (rows % unit != 0);
    pieces = std::min({static_cast<std::int64_t>(num_shards_), 1 + (bytes - 1) / kWholeVariableBytes, units});
  }
  // Piece i ends after floor(units * (i + 1) / pieces) units: sizes differ by one unit at most.
  const std::int64_t units = rows / unit + (rows % unit != 0);
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t whole = units / pieces * (i + 1) + units % pieces * (i + 1) / pieces;
    const std::int64_t end = i + 1 == pieces ? rows : whole * unit;
    Slice slice{.variable = v.name, .dtype = v.dtype, .shape = v.shape, .row_begin = begin, .row_end = end};
    if (!v.shape.is_scalar()) slice.shape.set_dim(0, end - begin);
    slice.on_demand = v.on_demand;
    slices_.push_back(std::move(slice));
    begin = end;
  }
}

void ShardMap::deal_out(const VariableSpec& v, std::int64_t pieces) {
  const std::int64_t rows = v.shape.dim(0);
  for (std::int64_t k = 0; k < pieces; ++k) {
    Slice slice{.variable = v.name, .dtype = v.dtype, .shape = v.shape, .row_begin = k, .row_end = rows};
    slice.stride = pieces;
    slice.on_demand = v.on_demand;
    slice.shape.set_dim(0, rows / pieces + (k < rows % pieces));
    slices_.push_back(std::move(slice));
  }
}

void ShardMap::assign() {
  std::vector<std::size_t> order(slices_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Slices are already ordered by name and row: a stable sort keeps that among equal sizes.
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return bytes_of_slice(slices_[i]); });
  std::vector<std::int64_t> load(static_cast<std::size_t>(num_shards_), 0);
  for (std::size_t i : order) {
    const auto least = std::ranges::min_element(load);
    slices_[i].shard = static_cast<int>(least - load.begin());
    if (__builtin_add_overflow(*least, bytes_of_slice(slices_[i]), &*least))
      invalid_argument("the size of shard {} in bytes does not fit in 63 bits", slices_[i].shard);
  }
}

const ShardMap::Range& ShardMap::range(std::string_view variable) const {
  const auto it = first_.find(variable);
  if (it == first_.end()) fail(Code::not_found, "the shard map has no variable '{}'", variable);
  return it->second;
}

const VariableSpec& ShardMap::variable(std::string_view name) const { return variables_[range(name).variable]; }

std::span<const Slice> ShardMap::slices_of(std::string_view variable) const {
  const Range& r = range(variable);
  return std::span(slices_).subspan(r.begin, r.end - r.begin);
}

std::int64_t ShardMap::bytes_of(int shard) const {
  std::int64_t bytes = 0;
  for (const Slice& s : slices_)
    if (s.shard == shard) bytes += bytes_of_slice(s);
  return bytes;
}

std::uint64_t ShardMap::fingerprint() const {
  Fnv1a hash;
  hash.number(num_shards_);
  for (const Slice& s : slices_) {
    hash.number(s.id);
    hash.text(s.variable);
    hash.number(static_cast<std::int64_t>(s.dtype));
    hash.number(s.shape.rank());
    for (std::int64_t d : s.shape.dims()) hash.number(d);
    hash.number(s.row_begin);
    hash.number(s.row_end);
    hash.number(s.stride);
    hash.number(s.on_demand ? 1 : 0);
    hash.number(s.shard);
  }
  return hash.value();
}

std::vector<SlicePack> pack_slices(
    const ShardMap& map, const std::function<std::optional<std::uint32_t>(const std::string& variable)>& group_of) {
  std::vector<SlicePack> packs;
  std::map<std::tuple<int, DType, std::uint32_t>, std::size_t> open;  // position in `packs`
  for (const Slice& slice : map.slices()) {
    const std::int64_t bytes = bytes_of_slice(slice);
    if (bytes == 0 || bytes > kSmallSliceBytes || map.slices_of(slice.variable).size() > 1) continue;
    const std::optional<std::uint32_t> group = group_of(slice.variable);
    if (!group) continue;
    const auto [at, fresh] = open.try_emplace({slice.shard, slice.dtype, *group}, packs.size());
    const auto full = [&](const SlicePack& pack) {
      return pack.elements * static_cast<std::int64_t>(size_of(pack.dtype)) + bytes > kPackBytes;
    };
    if (fresh || full(packs[at->second])) {
      at->second = packs.size();
      packs.push_back({.shard = slice.shard, .dtype = slice.dtype, .slices = {}});
    }
    SlicePack& pack = packs[at->second];
    pack.slices.push_back(slice.id);
    pack.elements += slice.shape.num_elements();
  }
  std::erase_if(packs, [](const SlicePack& pack) { return pack.slices.size() < 2; });
  for (std::size_t i = 0; i < packs.size(); ++i) packs[i].id = static_cast<std::uint32_t>(map.slices().size() + i);
  return packs;
}

std::string ShardMap::dump() const {
  std::string text;
  for (const Slice& s : slices_)
    text += fmt::format("{}: {} rows [{},{}){} {}{}{} -> shard {}\n", s.id, s.variable, s.row_begin, s.row_end,
                        s.stride == 1 ? "" : fmt::format(" step {}", s.stride), troupe::name(s.dtype),
                        s.shape.to_string(), s.on_demand ? " on demand" : "", s.shard);
  return text;
}

}  // namespace troupe
