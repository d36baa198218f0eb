// Fuzz target: files of CSV and of JSON lines of unknown origin; the highest bit of the first byte says which.
#include "tests/fuzz/csv_fuzz.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/json_lines_fuzz.hpp"

std::vector<std::string> troupe::fuzz::seeds() {
  std::vector<std::string> all = csv_seeds();
  for (std::string& seed : json_lines_seeds()) all.push_back(std::move(seed));
  return all;
}

void troupe::fuzz::run(std::string_view input) {
  if (!input.empty() && (input[0] & 0x80) != 0)
    static_cast<void>(read_json_lines_of_stranger(input));
  else
    static_cast<void>(read_csv_of_stranger(input));
}
