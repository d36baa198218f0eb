// Fuzz target: files of CSV of unknown origin.
#include "tests/fuzz/csv_fuzz.hpp"
#include "tests/fuzz/fuzz_target.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return csv_seeds(); }
void troupe::fuzz::run(std::string_view input) { static_cast<void>(read_csv_of_stranger(input)); }
