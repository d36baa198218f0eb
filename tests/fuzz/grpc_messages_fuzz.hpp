// Reads gRPC messages and configurations of troupe-serve, for the fuzzer and for its test.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Reads the message that an input stands for: its first byte chooses a PredictRequest, a ModelInferRequest, a
// ReloadConfigRequest or the text of a configuration file. Aborts if anything but invalid_argument, resource_exhausted
// or unimplemented is thrown, if tensors take more memory than a request may, or if they are not the same after a
// response has carried them. Returns how many tensors or models were read.
std::size_t read_grpc_message_of_stranger(std::string_view input);
std::vector<std::string> grpc_message_seeds();

}  // namespace troupe
