// Where the records of a file begin, kept in a file beside it: makes records addressable.
//
// PATH.index, little-endian: "TrpIndex", u64 version (1), u64 bytes of the file, u32 CRC-32C of its first and last
// 64 KiB, u32 CRC-32C of the rest of the index, u64 length and bytes of what was counted (RecordFormat::name), u64
// number of records, their offsets as u64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/kernels/readers/record_files.hpp>

namespace troupe {

struct RecordIndex {
  std::vector<std::uint64_t> offsets{};  // ascending
};

std::string index_path(const std::string& path);  // "data.tfrecord.index", in a URL before the query

// Reads the whole file once. Throws failed_precondition for a compressed file, which cannot be read from its middle,
// and data_loss for damaged records.
RecordIndex build_index(FileSystem& files, const std::string& path, const RecordFormat& format);

// Durably and atomically: tasks that make the same index at a time do not disturb each other.
void write_index(FileSystem& files, const std::string& path, const RecordFormat& format, const RecordIndex& index);

// Throws not_found if there is none, data_loss for one that is damaged, unimplemented for one of a later Troupe, and
// failed_precondition for one that is not of this file: of another size or content, or of another format.
RecordIndex read_index(FileSystem& files, const std::string& path, const RecordFormat& format);

// Reads it, or builds and writes it if there is none, or may not be read; where nothing can be written, it is only
// built.
RecordIndex index_of_records(FileSystem& files, const std::string& path, const RecordFormat& format);

}  // namespace troupe
