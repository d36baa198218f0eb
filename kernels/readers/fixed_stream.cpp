#include "troupe/kernels/readers/fixed_stream.hpp"

#include <algorithm>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::uint64_t kMostFixedBytes = std::uint64_t{1}
                                          << 40;  // of a record, header or footer: sums do not overflow

}  // namespace

FixedStream::FixedStream(FileSystem& files, std::string path, const FixedOptions& options)
    : options_(options), bytes_(files, std::move(path)) {
  const std::uint64_t most = std::min(options_.records.most_bytes, kMostFixedBytes);
  if (options_.record_bytes == 0 || options_.record_bytes > most)
    invalid_argument("{}: records of {} bytes: pass 1 to {}", bytes_.path(), options_.record_bytes, most);
  if (options_.header_bytes > kMostFixedBytes || options_.footer_bytes > kMostFixedBytes)
    invalid_argument("{}: a header of {} and a footer of {} bytes: pass at most {}", bytes_.path(),
                     options_.header_bytes, options_.footer_bytes, kMostFixedBytes);
  begin();
}

void FixedStream::begin() {
  while (bytes_.offset() < options_.header_bytes) {
    const std::size_t seen = bytes_.peek(1).size();
    if (seen == 0) {
      damaged(bytes_.offset());
      return;
    }
    bytes_.skip(static_cast<std::size_t>(std::min<std::uint64_t>(seen, options_.header_bytes - bytes_.offset())));
  }
}

bool FixedStream::next(std::string_view& record) {
  bytes_.skip(std::exchange(pending_, 0));
  if (ended_) return false;
  const std::string_view bytes = bytes_.peek(static_cast<std::size_t>(options_.record_bytes + options_.footer_bytes));
  if (bytes.size() < options_.record_bytes + options_.footer_bytes) {
    if (bytes.size() != options_.footer_bytes) damaged(bytes.size());
    ended_ = true;
    return false;
  }
  pending_ = static_cast<std::size_t>(options_.record_bytes);
  record = bytes.substr(0, pending_);
  return true;
}

// The file ends `rest` bytes behind the last record, or within the header.
void FixedStream::damaged(std::uint64_t rest) {
  const std::string what =
      bytes_.offset() < options_.header_bytes
          ? fmt::format("has {} bytes, but its header {}", rest, options_.header_bytes)
          : fmt::format("byte {}: {} bytes are left, but must be a footer of {}, or that behind records of {}",
                        bytes_.offset(), rest, options_.footer_bytes, options_.record_bytes);
  const Error damage(Code::data_loss, fmt::format("{}: {}", bytes_.path(), what));
  if (!options_.records.skip_damaged) throw damage;
  if (options_.records.on_damage) options_.records.on_damage(damage);
  ++skipped_;
  ended_ = true;
}

void FixedStream::seek(std::uint64_t position) {
  const std::uint64_t header = options_.header_bytes;
  if (position != 0 && (position < header || (position - header) % options_.record_bytes != 0))
    invalid_argument("{}: no record of {} bytes behind a header of {} begins at byte {}", bytes_.path(),
                     options_.record_bytes, header, position);
  pending_ = 0;
  ended_ = false;
  bytes_.seek(position);
  if (position == 0) begin();
}

}  // namespace troupe
