// TensorFlow Serving's text files: which models a server has, and how it joins their requests.
//
//   model_config_list { config { name: "digits" base_path: "models/digits" version_labels { key: "old" value: 3 } } }
//   max_batch_size { value: 32 } batch_timeout_micros { value: 1000 } allowed_batch_sizes: 8 allowed_batch_sizes: 32
//
// Fields of apps/serve/proto/serving_config.proto; unknown ones are errors.
#pragma once

#include <string>
#include <vector>

#include <troupe/actors/serving/model_server.hpp>

namespace tensorflow::serving {
class ModelServerConfig;
}

namespace troupe {

// BatchQueue::Options::above, unless the user says otherwise: what joining and handing out cost a request.
inline constexpr Nanoseconds kBatchAbove = 20 * kMicrosecond;

// Throws errors of reading the file, invalid_argument "models.txt:3:7: ..." for what is no such text, and those of
// models_of().
std::vector<ServedModel> read_serving_config(const std::string& path);
// Likewise of such a file's text; `path` begins errors.
std::vector<ServedModel> parse_serving_config(const std::string& text, const std::string& path);
// Throws invalid_argument for a model without a name or path, or named twice, a number of versions below 1, and a list
// of versions that is empty; unimplemented for a custom configuration and for platforms that there are not.
std::vector<ServedModel> models_of(const ::tensorflow::serving::ModelServerConfig& config);
// Throws as read_serving_config(), and as BatchQueue. Thread pools are not shared: num_batch_threads is how many
// batches of a signature run at once.
BatchQueue::Options read_batching_parameters(const std::string& path);

}  // namespace troupe
