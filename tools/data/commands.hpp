// The commands of troupe-data. Each prints its results on stdout and returns the exit code: 0, or 1 for damage. They
// throw Error for what they cannot do.
#pragma once

#include <cstdint>
#include <string>

#include "tools/data/input.hpp"

namespace troupe::data_tool {

struct Options {
  InputOptions input{};
  bool json = false;
  std::uint64_t count = 5;  // of head
  std::string to{};         // convert: format; "": by OUT's name
  bool f32 = false;         // convert: f64, f16 and bf16 as f32
};

int info(FileSystem& files, const std::string& pattern, const Options& options);
int head(FileSystem& files, const std::string& pattern, const Options& options);
// Writes OUT anew, atomically.
int convert(FileSystem& files, const std::string& pattern, const std::string& out, const Options& options);
int verify(FileSystem& files, const std::string& pattern, const Options& options);
int index(FileSystem& files, const std::string& pattern, const Options& options);
int stats(FileSystem& files, const std::string& pattern, const Options& options);

// Bytes of all files.
std::uint64_t bytes_of(FileSystem& files, const Input& input);
// Tells on stderr what open_input() left out.
void tell_notes(const Input& input);

}  // namespace troupe::data_tool
