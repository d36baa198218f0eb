// An event file of TensorBoard: records (record.hpp), of which each is an Event. The first one says so:
// "brain.Event:2".
//
// TensorBoard takes all files of a directory whose names have "tfevents" in them as one run, in the order of their
// names: "events.out.tfevents.SECONDS.HOST.PROCESS". A program that is started again adds a file, whose name comes
// after all that are there. A file that is still written to is read as far as it goes.
#pragma once

#include <memory>
#include <string>

#include "messages/proto/tensorboard.pb.h"
#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

// One thread at a time. Errors are those of FileSystem.
class EventFile {
 public:
  // Makes the directory if need be. `wall_time`: now, in seconds since 1970.
  EventFile(FileSystem& files, const std::string& directory, double wall_time);

  // Whoever looks from now on sees it; it need not survive a crash of the machine. After an error nothing may follow:
  // half of a record may be there, which TensorBoard leaves alone if it is the last.
  void write(const proto::tensorboard::Event& event);

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<WritableFile> file_;
};

}  // namespace troupe
