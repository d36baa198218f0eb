// Writes a share of the requests that are answered to files, as TensorFlow Serving logs them (PredictionLog messages in
// TFRecords: actors/model/recorded_requests.hpp). Each file can warm up a model.
//
//   RequestLog log(files, {.prefix = "logs/requests", .rate = 0.01});
//   RestDoor door(log.logged(ServedModels::of(server)), {...});  // and the others: doors do not know of it
//
// Files are PREFIX-00000.tfrecord and so on; those of an earlier run are kept, and counted on from. Doors never wait:
// requests go to the log's own thread with references of their tensors, not copies, and are left out, and counted, when
// it falls behind. A request that is not chosen costs nothing but the choice. Requests that fail are not logged. After
// an error of writing a file nothing more is written. Each log needs a prefix of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "apps/serve/served_models.hpp"
#include <troupe/actors/base/snapshot.hpp>
#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

class RequestLog {
 public:
  struct Options {
    std::string prefix{};                                      // of the files' names: "logs/requests"
    double rate = 0.01;                                        // share of the requests, above 0, at most 1
    std::size_t most_file_requests = 1000;                     // as many as a model is warmed up with
    std::uint64_t most_file_bytes = std::uint64_t{256} << 20;  // larger requests are left out
    std::size_t most_files = 16;                               // the oldest are removed
    std::size_t most_waiting_bytes = std::size_t{64} << 20;    // of requests that are not written yet
  };

  // Creates the directory and the first file. Throws invalid_argument for options that cannot be met, and errors of the
  // file system. `files` must outlive it.
  RequestLog(FileSystem& files, Options options);
  ~RequestLog();  // writes what waits; requests that end later are left out
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  // The same models, whose requests are logged. May outlive the log.
  ServedModels logged(ServedModels models) const;

  // Returns once all requests that have ended before are written or left out.
  void flush() const;
  RequestLogSnapshot snapshot() const;

 private:
  class Impl;
  class LoggedServable;
  const std::shared_ptr<Impl> impl_;
};

// Whether the request of this number, counted from 0, is one of the chosen: pseudo-random, but always the same; what a
// rate chooses, higher ones choose too.
bool is_logged(std::uint64_t number, double rate);

}  // namespace troupe
