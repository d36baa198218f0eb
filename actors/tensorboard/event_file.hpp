// A TensorBoard event file: records (kernels/readers/tfrecord.hpp), each holding an Event. The first gives the version:
// "brain.Event:2".
//
// TensorBoard reads all files of a directory with "tfevents" in their names as one run, ordered by name:
// "events.out.tfevents.SECONDS.HOST.PROCESS". A restarted program adds a file whose name sorts after all existing ones.
// TensorBoard reads a file that is still being written up to its current end.
#pragma once

#include <memory>
#include <string>

#include "messages/proto/tensorboard.pb.h"
#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

// Not thread-safe. Errors are those of FileSystem.
class EventFile {
 public:
  // Creates the directory if needed. `wall_time`: now, in seconds since 1970.
  EventFile(FileSystem& files, const std::string& directory, double wall_time);

  // Visible to readers on return, but may not survive a crash of the machine. Write nothing after an error: the file
  // may end in half a record, which TensorBoard ignores at the end only.
  void write(const proto::tensorboard::Event& event);

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<WritableFile> file_;
};

}  // namespace troupe
