// Fuzz target: messages that are sent to the gRPC door, and configurations of models.
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/grpc_messages_fuzz.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return grpc_message_seeds(); }

void troupe::fuzz::run(std::string_view input) { static_cast<void>(read_grpc_message_of_stranger(input)); }
