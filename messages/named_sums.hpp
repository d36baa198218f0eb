// Sums of figures over examples, by name: what a metric or loss of a batch amounts to. Sums of batches are merged by
// addition, in a fixed order, so that their bits do not depend on which task computed which batch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/fields.hpp>

namespace troupe {

struct NamedSum {
  std::string name;
  std::vector<double> values;  // "loss": the sum of the losses, and that of the weights
  bool operator==(const NamedSum&) const = default;
  TROUPE_FIELDS(name, values)
};

using NamedSums = std::vector<NamedSum>;

// Null if there is none of this name.
const NamedSum* find(const NamedSums& sums, std::string_view name);
// Whether `more` can be added: sums of the same name have the same number of values.
bool can_add(const NamedSums& total, const NamedSums& more);
// Adds value by value; new names are appended. Throws invalid_argument if they cannot be added.
void add(NamedSums& total, const NamedSums& more);

// One line per name, values as the hexadecimal digits of their bits: "accuracy 4059000000000000 4060000000000000".
// Names must not contain a space or a newline.
std::string to_string(const NamedSums& sums);
// Parses the output of to_string(). Throws data_loss for any other text.
NamedSums parse_sums(std::string_view text);

}  // namespace troupe
