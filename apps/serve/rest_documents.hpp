// What the REST door says of models: TensorFlow Serving's and the Open Inference Protocol's documents, as JSON.
#pragma once

#include <span>
#include <string>

#include <troupe/actors/serving/servable.hpp>

namespace troupe {

// {"model_version_status": [{"version", "state", "status": {"error_code", "error_message"}}]}
std::string model_status_json(std::span<const ServableManager::Status> versions);
// {"model_spec": {...}, "metadata": {"signature_def": {...}}}
std::string model_metadata_json(const Servable& servable);
// {"name", "versions", "platform", "inputs", "outputs"}: of the signature that requests without a name mean.
std::string inference_metadata_json(const Servable& servable, std::span<const ServableManager::Status> versions);
std::string inference_server_json();

}  // namespace troupe
