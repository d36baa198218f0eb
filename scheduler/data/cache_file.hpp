// Elements of a pipeline kept in a file: what is slow to make is made once, and read by number from then on.
//
//   const auto decoded = data::cache_file(data::image_folder("flowers").map(resized), "flowers.cache");
//   const auto training = decoded.shuffle(7).batch(32);
//
// The elements are those of the first epoch, in each epoch. A missing file is written when the stage is made, in one
// pass over the pipeline, and appears whole or not at all. Each element has a checksum.
//
// All numbers are little endian:
//   "TRPCACHE", u32 version, u32 crc32c of the description, u64 its length, the description: Pipeline::describe()
//   elements, one after the other: of each component its dimensions, i64 each, then its bytes; of strings u64 length
//   and characters each
//   u64 offset and u32 crc32c of each element
//   u64 offset of that list, u64 elements, u32 crc32c of the list, "TRPC.END"
#pragma once

#include <string>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/data/pipeline.hpp>

namespace troupe::data {

struct CacheFileOptions {
  FileSystem* files = nullptr;  // null: by the path's scheme (file_system_of()); outlives the pipeline
};

// Addressable. Throws failed_precondition if the file keeps elements of a pipeline of another description: other
// stages, names, schemas or sizes; data_loss if it is damaged; what the pipeline and the file system throw. What
// functions do is not part of a description: give a function that has changed another name, or remove the file.
Pipeline cache_file(const Pipeline& pipeline, const std::string& path, const CacheFileOptions& options = {});

}  // namespace troupe::data
