#include "troupe/actors/tensorboard/event_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "host";
  return name.data();
}

// The greatest timestamp (seconds) in the name of an event file; 0 if there is none.
std::uint64_t newest_in(FileSystem& files, const std::string& directory) {
  std::uint64_t newest = 0;
  for (const DirectoryEntry& entry : files.list(directory)) {
    if (!entry.name.starts_with(kPrefix)) continue;
    const char* begin = entry.name.data() + kPrefix.size();
    std::uint64_t seconds = 0;
    const auto [end, error] = std::from_chars(begin, entry.name.data() + entry.name.size(), seconds);
    if (error == std::errc() && end - begin <= 10)
      newest = std::max(newest, seconds);  // other names do not sort by number
  }
  return newest;
}

}  // namespace

EventFile::EventFile(FileSystem& files, const std::string& directory, double wall_time) {
  make_directories(files, directory);
  const std::uint64_t seconds = std::max(static_cast<std::uint64_t>(wall_time), newest_in(files, directory) + 1);
  path_ = join_path(directory, fmt::format("{}{:010}.{}.{}", kPrefix, seconds, host_name(), ::getpid()));
  file_ = files.create(path_);
  proto::tensorboard::Event first;
  first.set_wall_time(wall_time);
  first.set_file_version("brain.Event:2");
  first.mutable_source_metadata()->set_writer("troupe");
  write(first);
}

void EventFile::write(const proto::tensorboard::Event& event) {
  std::string bytes;
  if (!event.SerializeToString(&bytes)) fail(Code::resource_exhausted, "an event for '{}' is larger than 2 GiB", path_);
  const std::string record = record_of(bytes);
  file_->append(std::as_bytes(std::span(record)));
}

}  // namespace troupe
