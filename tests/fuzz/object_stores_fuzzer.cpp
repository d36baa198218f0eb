// Fuzz target: answers of object stores.
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/object_stores_fuzz.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return object_store_seeds(); }
void troupe::fuzz::run(std::string_view input) { static_cast<void>(read_answer_of_stranger(input)); }
