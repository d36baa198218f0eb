// Tables of LevelDB (https://github.com/google/leveldb, doc/table_format.md): sorted pairs of keys and values in one
// file. The index of a tensor bundle (tensor_bundle.hpp) is one.
//
//   blocks of pairs; a block of pairs for metadata; a block that has, for each block of pairs, its place;
//   48 bytes: places of the last two (two varints each), zeros, 8 bytes little-endian 0xdb4775248b80fb57
//
// A block is followed by a byte that says how it is compressed (0: not) and 4 bytes: the masked CRC-32C of both. In it,
// a pair is three varints (bytes of the key that are those of the key before it, bytes that follow, bytes of the
// value), those bytes of the key, and the value. At the end are the offsets of pairs that share nothing, 4 bytes each,
// and their number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

using TablePairs = std::vector<std::pair<std::string, std::string>>;  // keys and values

// All pairs of a table. Memory is bounded by the size of the file; at most a million pairs. Throws data_loss that names
// the file, the offset and what was expected; unimplemented for compressed blocks.
TablePairs read_leveldb_table(std::string_view bytes, const std::string& file);

// The bytes of a table of these pairs, whose keys must ascend.
std::string leveldb_table(const TablePairs& pairs);

}  // namespace troupe
