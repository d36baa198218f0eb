// What the fuzzer of files of records and its test share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Reads the file that an input stands for. The first byte says what the rest is: 0 a TFRecord file; 1 one whose
// checksums are made right first, as long as there are records; 2 a tf.train.Example, without a file around it. Records
// of files are parsed as Examples, too. Aborts if anything but Error is thrown, or what was read cannot be written and
// read again, or not from its position. Returns how many records were read.
std::size_t read_records_of_stranger(std::string_view input);
std::vector<std::string> record_seeds();

}  // namespace troupe
