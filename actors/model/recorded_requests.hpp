// Requests that were recorded, in TensorFlow Serving's format: a TFRecord file (kernels/readers/tfrecord.hpp) of
// PredictionLog messages, plain or compressed. Those that lie beside a model are run before a version of it is served;
// a server's log has the same format, so that what it writes warms up the next version.
//
//   const std::string file = recorded_requests_of(files, "scores/3");
//   if (!file.empty())
//     for (const RecordedRequest& request : read_recorded_requests(files, file)) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

struct RecordedRequest {
  std::string signature{};                  // "": the usual one
  std::map<std::string, Tensor> inputs{};   // by the names of the signature
  std::map<std::string, Tensor> outputs{};  // of the answer; none: it was not recorded
};

struct RecordedRequestLimits {
  std::size_t most_requests = 1000;                     // TensorFlow Serving's
  std::uint64_t most_bytes = std::uint64_t{256} << 20;  // of all records together
};

// The file of requests that a version is warmed up with: VERSION/assets.extra/tf_serving_warmup_requests or, where it
// has none, recorded_requests.tfrecord beside the versions, which are named by a number (3, 3.onnx). "": there is none.
std::string recorded_requests_of(FileSystem& files, const std::string& version_path);

// In the file's order; the names and versions of models in it are not looked at. Throws errors of the file system,
// and, naming the file and the record: data_loss for a damaged one, unimplemented for one that is no Predict request or
// has elements that Troupe lacks, and resource_exhausted beyond a limit.
std::vector<RecordedRequest> read_recorded_requests(FileSystem& files, const std::string& file,
                                                    const RecordedRequestLimits& limits = {});

// Which server computed a request.
struct RecordedBy {
  std::string model{};
  std::int64_t version = 0;
  double sampling_rate = 1;
};

// The data of one record. Tensors must be in host memory. Throws invalid_argument for elements that TensorFlow lacks,
// resource_exhausted beyond 2 GiB.
std::string to_record(const RecordedRequest& request, const RecordedBy& by = {});
// The other way. A tensor may say its last element once for all that follow: `repeated_bytes` is how much of that is
// still allowed, and becomes less. Throws as read_recorded_requests() does, without a place.
RecordedRequest recorded_request_from(std::string_view record, std::uint64_t& repeated_bytes);

}  // namespace troupe
