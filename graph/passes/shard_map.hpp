// ShardMap: the part of the parameters that each shard owns. A pure function of names, dtypes, shapes and the number of
// shards, so that every task computes the same map independently; fingerprint() lets them check.
//
// Variables up to 4 MiB stay whole. Larger ones are cut along dimension 0 into at most one piece per shard, at rows
// whose offset is a multiple of 64 bytes, in pieces as equal as that allows. One with sparse gradients is dealt out
// instead: piece k of K has rows k, k + K, k + 2 K and so on, so that frequent rows, often those with small numbers,
// are everywhere. Pieces are assigned, largest first (then by name and row), to the shard with the fewest bytes so far
// (then the lowest number).
//
// Small slices of a shard travel in packs: one message for many (pack_slices).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/dtype.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

struct VariableSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  bool by_rows = false;    // has sparse gradients
  bool on_demand = false;  // VariableOptions::on_demand
  bool whole = false;      // is not cut: a constraint needs all of its rows
};

// Rows row_begin, row_begin + stride, ... below row_end of a variable. A scalar counts as one row.
struct Slice {
  std::uint32_t id = 0;  // by (variable, row_begin), from 0
  std::string variable;
  DType dtype = DType::invalid;
  Shape shape;  // of the slice
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::int64_t stride = 1;
  bool on_demand = false;
  int shard = 0;
  bool operator==(const Slice&) const = default;
};

inline constexpr std::int64_t kWholeVariableBytes = 4 << 20;
inline constexpr std::int64_t kSliceAlignment = 64;

class ShardMap {
 public:
  ShardMap() = default;
  // The order of `variables` does not matter. Throws invalid_argument for a repeated name, a shape that is not fully
  // known or too large, a dtype without bytes, or num_shards < 1.
  ShardMap(std::vector<VariableSpec> variables, int num_shards);

  int num_shards() const { return num_shards_; }
  const std::vector<VariableSpec>& variables() const { return variables_; }  // by name
  const std::vector<Slice>& slices() const { return slices_; }               // by id
  bool contains(std::string_view variable) const { return first_.find(variable) != first_.end(); }
  const VariableSpec& variable(std::string_view name) const;          // throws not_found
  std::span<const Slice> slices_of(std::string_view variable) const;  // by row; throws not_found
  std::int64_t bytes_of(int shard) const;

  // FNV-1a (64 bits) over the number of shards and all fields of all slices.
  std::uint64_t fingerprint() const;
  // One line per slice.
  std::string dump() const;

 private:
  struct Range {
    std::size_t variable = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  const Range& range(std::string_view variable) const;
  void cut(const VariableSpec& variable);
  void deal_out(const VariableSpec& variable, std::int64_t pieces);
  void assign();

  int num_shards_ = 0;
  std::vector<VariableSpec> variables_;
  std::vector<Slice> slices_;
  std::map<std::string, Range, std::less<>> first_;
};

// Slices of one shard and dtype that are pulled and pushed as one: their elements, flat, one slice after the other.
struct SlicePack {
  std::uint32_t id = 0;  // above all ids of slices: a Pull or Push names the one or the other
  int shard = 0;
  DType dtype = DType::invalid;
  std::int64_t elements = 0;
  std::vector<std::uint32_t> slices;  // at least two
  bool operator==(const SlicePack&) const = default;
};

inline constexpr std::int64_t kSmallSliceBytes = 16 << 10;
inline constexpr std::int64_t kPackBytes = 256 << 10;

// Packs the slices of up to kSmallSliceBytes that are whole variables, in the order of their ids: those of a shard, a
// dtype and a group together, up to kPackBytes. `group_of` gives a variable's group; none: it travels alone.
std::vector<SlicePack> pack_slices(
    const ShardMap& map, const std::function<std::optional<std::uint32_t>(const std::string& variable)>& group_of);

}  // namespace troupe
