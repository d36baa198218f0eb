// Records of a fixed number of bytes behind each other, between a header and a footer that are passed over: what
// tf.data.FixedLengthRecordDataset reads.
//
// Damaged: a rest of the file that is no whole record, and a file without room for header and footer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <troupe/kernels/readers/record_stream.hpp>

namespace troupe {

struct FixedOptions {
  RecordOptions records{};
  std::uint64_t record_bytes = 0;
  std::uint64_t header_bytes = 0, footer_bytes = 0;  // of a file
};

// Throws what opening the file throws; invalid_argument unless a record has 1 to RecordOptions::most_bytes bytes.
class FixedStream final : public RecordStream {
 public:
  FixedStream(FileSystem& files, std::string path, const FixedOptions& options);

  // A view into the window of the file.
  bool next(std::string_view& record) override;
  std::uint64_t position() const override { return bytes_.offset() + pending_; }
  // To the beginning of a record, or to 0: to the first one. invalid_argument for another position.
  void seek(std::uint64_t position) override;
  std::uint64_t skipped() const override { return skipped_; }

 private:
  void begin();
  void damaged(std::uint64_t rest);

  FixedOptions options_;
  ByteStream bytes_;
  std::size_t pending_ = 0;  // bytes of the last record, which the stream still holds
  bool ended_ = false;
  std::uint64_t skipped_ = 0;
};

}  // namespace troupe
