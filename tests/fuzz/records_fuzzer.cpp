// Fuzz target: files of records of unknown origin.
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/records_fuzz.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return record_seeds(); }
void troupe::fuzz::run(std::string_view input) { static_cast<void>(read_records_of_stranger(input)); }
