#include "troupe/kernels/readers/leveldb_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::uint64_t kTableMagic = 0xdb4775248b80fb57;
constexpr std::size_t kFooterBytes = 48, kTrailerBytes = 5, kWordBytes = 4;
constexpr std::size_t kMostPairs = 1'000'000;
// Keys share bytes: a small file must not become large ones.
constexpr std::size_t kKeyBytesPerByte = 16, kFreeKeyBytes = 1 << 20;
constexpr std::size_t kBlockBytes = 4096, kRestartInterval = 16;  // of tables that are written

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t out = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) out = out << 8 | static_cast<unsigned char>(bytes[i]);
  return out;
}

void put_little_endian(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

void put_table_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

struct BlockPlace {
  std::uint64_t offset = 0, size = 0;
};

class TableReader {
 public:
  TableReader(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  TablePairs read() {
    if (bytes_.size() < kFooterBytes)
      damaged(0, "a table has at least {} bytes, but the file has {}", kFooterBytes, bytes_.size());
    const std::size_t footer = bytes_.size() - kFooterBytes;
    if (const std::uint64_t magic = little_endian(bytes_.substr(bytes_.size() - 8)); magic != kTableMagic)
      damaged(bytes_.size() - 8, "expected the number {:#x} that ends a table, but found {:#x}", kTableMagic, magic);
    std::string_view places = bytes_.substr(footer, kFooterBytes - 8);
    const BlockPlace metadata = place(places), index = place(places);
    TablePairs unused, blocks, out;
    read_block(metadata, unused);
    read_block(index, blocks);
    std::uint64_t before = 0;
    for (const auto& [key, value] : blocks) {
      std::string_view text = value;
      const BlockPlace next = place(text);
      // No block is read twice, so that all pairs come from bytes of their own.
      if (next.offset < before) damaged(next.offset, "a block that begins before the end of the one before it");
      before = next.offset + next.size;
      read_block(next, out);
    }
    return out;
  }

 private:
  template <class... Args>
  [[noreturn]] void damaged(std::uint64_t offset, fmt::format_string<Args...> format, Args&&... args) const {
    fail(Code::data_loss, "'{}': byte {}: {}", file_, offset, fmt::format(format, std::forward<Args>(args)...));
  }

  std::uint64_t offset_of(std::string_view rest) const {
    const bool inside = rest.data() >= bytes_.data() && rest.data() <= bytes_.data() + bytes_.size();
    return inside ? static_cast<std::uint64_t>(rest.data() - bytes_.data()) : 0;  // 0: in the value of a pair
  }

  std::uint64_t varint(std::string_view& rest) const {
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < rest.size() && i < 10; ++i) {
      const auto byte = static_cast<unsigned char>(rest[i]);
      out |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        rest.remove_prefix(i + 1);
        return out;
      }
    }
    damaged(offset_of(rest), "a number is cut, or has more than 10 bytes");
  }

  BlockPlace place(std::string_view& rest) const {
    const std::uint64_t at = offset_of(rest);
    const BlockPlace out{varint(rest), varint(rest)};
    const std::uint64_t end = bytes_.size() - kFooterBytes;
    if (out.offset > end || out.size > end - out.offset || kTrailerBytes > end - out.offset - out.size)
      damaged(at, "a block of {} bytes at {} and its checksum do not fit the {} bytes before the footer", out.size,
              out.offset, end);
    return out;
  }

  std::string_view checked_block(const BlockPlace& where) const {
    const std::string_view whole = bytes_.substr(where.offset, where.size + 1);
    const std::uint64_t stored = little_endian(bytes_.substr(where.offset + whole.size(), kWordBytes));
    if (const std::uint32_t found = masked_crc32c(whole); found != stored)
      damaged(where.offset, "a block of {} bytes has checksum {:#x}, but {:#x} is stored", where.size, found, stored);
    if (whole.back() != 0)
      fail(Code::unimplemented, "'{}': byte {}: a block is compressed (type {}), which is not supported", file_,
           where.offset, static_cast<unsigned char>(whole.back()));
    return whole.substr(0, where.size);
  }

  void read_block(const BlockPlace& where, TablePairs& out) {
    const std::string_view block = checked_block(where);
    if (block.size() < kWordBytes) damaged(where.offset, "a block of {} bytes", block.size());
    const std::uint64_t restarts = little_endian(block.substr(block.size() - kWordBytes));
    if (restarts > block.size() / kWordBytes - 1)
      damaged(where.offset + block.size() - kWordBytes, "a block of {} bytes has no {} restart points", block.size(),
              restarts);
    std::string_view rest = block.substr(0, block.size() - kWordBytes * (restarts + 1));
    const std::size_t first = out.size();
    while (!rest.empty()) {
      const std::uint64_t at = offset_of(rest);
      const std::uint64_t shared = varint(rest), more = varint(rest), length = varint(rest);
      const std::string_view before = out.size() > first ? std::string_view(out.back().first) : std::string_view();
      if (shared > before.size())
        damaged(at, "a key shares {} bytes with the one before it, which has {}", shared, before.size());
      if (more > rest.size() || length > rest.size() - more)
        damaged(at, "a key of {} more bytes and a value of {} do not fit the {} that are left", more, length,
                rest.size());
      key_bytes_ += shared + more;
      if (out.size() >= kMostPairs || key_bytes_ > kKeyBytesPerByte * bytes_.size() + kFreeKeyBytes)
        fail(Code::resource_exhausted, "'{}': byte {}: a table of {} bytes has more than {} pairs, or {} bytes of keys",
             file_, at, bytes_.size(), kMostPairs, kKeyBytesPerByte * bytes_.size() + kFreeKeyBytes);
      std::string key(before.substr(0, shared));
      key += rest.substr(0, more);
      if (!out.empty() && key <= out.back().first)
        damaged(at, "keys do not ascend: '{}' follows '{}'", key, out.back().first);
      out.emplace_back(std::move(key), rest.substr(more, length));
      rest.remove_prefix(more + length);
    }
  }

  const std::string_view bytes_;
  const std::string& file_;
  std::size_t key_bytes_ = 0;
};

class TableWriter {
 public:
  std::string write(const TablePairs& pairs) {
    TablePairs index;
    for (std::size_t begin = 0; begin < pairs.size();) {
      std::size_t end = begin, bytes = 0;
      for (; end < pairs.size() && bytes < kBlockBytes; ++end)
        bytes += pairs[end].first.size() + pairs[end].second.size();
      const std::string place = add_block(
          {pairs.begin() + static_cast<std::ptrdiff_t>(begin), pairs.begin() + static_cast<std::ptrdiff_t>(end)});
      index.emplace_back(pairs[end - 1].first, place);
      begin = end;
    }
    std::string footer = add_block({});
    footer += add_block(index);
    footer.resize(kFooterBytes - 8, '\0');
    put_little_endian(footer, kTableMagic, 8);
    return out_ + footer;
  }

 private:
  // Returns its place.
  std::string add_block(const TablePairs& pairs) {
    std::string block, restarts;
    std::string_view before;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const auto& [key, value] = pairs[i];
      std::size_t shared = 0;
      if (i % kRestartInterval == 0)
        put_little_endian(restarts, block.size(), kWordBytes);
      else
        shared = static_cast<std::size_t>(std::ranges::mismatch(before, key).in1 - before.begin());
      put_table_varint(block, shared);
      put_table_varint(block, key.size() - shared);
      put_table_varint(block, value.size());
      block += key.substr(shared);
      block += value;
      before = key;
    }
    if (restarts.empty()) put_little_endian(restarts, 0, kWordBytes);
    block += restarts;
    put_little_endian(block, restarts.size() / kWordBytes, kWordBytes);
    std::string place;
    put_table_varint(place, out_.size());
    put_table_varint(place, block.size());
    block += '\0';  // not compressed
    put_little_endian(block, masked_crc32c(block), kWordBytes);
    out_ += block;
    return place;
  }

  std::string out_;
};

}  // namespace

TablePairs read_leveldb_table(std::string_view bytes, const std::string& file) {
  return TableReader(bytes, file).read();
}

std::string leveldb_table(const TablePairs& pairs) {
  for (std::size_t i = 1; i < pairs.size(); ++i)
    if (pairs[i].first <= pairs[i - 1].first)
      invalid_argument("keys of a table must ascend: '{}' follows '{}'", pairs[i].first, pairs[i - 1].first);
  return TableWriter().write(pairs);
}

}  // namespace troupe
