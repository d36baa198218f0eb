#include "troupe/scheduler/waits/wait_things.hpp"

#include <array>
#include <vector>

namespace troupe::wait_thing {
namespace {

// How kinds of things are called: {N} is the N-th field after the kind; the name of a task or device is one field.
struct Words {
  std::string_view kind;
  std::size_t fields;
  std::string_view text;
};

constexpr std::array kWords = {
    Words{"step", 2, "step {1}"},
    Words{"part", 3, "the part of step {1} on {2}"},
    Words{"segment", 4, "a segment of step {1} on {2}"},
    Words{"tensor", 3, "a tensor of step {1}"},
    Words{"pull", 4, "parameters for step {1} on {2}"},
    Words{"device", 1, "{0}"},
    Words{"link", 2, "the connection from {0} to {1}"},
    Words{"room", 2, "room on the connection from {0} to {1}"},
    Words{"task", 1, "{0}"},
    Words{"actor", 2, "the {1} of {0}"},
    Words{"client", 2, "a client on {0}"},
    Words{"answer", 2, "an answer for {0}"},
    Words{"meeting", 1, "{0}, which connects to its cluster"},
    Words{"coming", 2, "a link from {1} to {0}"},
    Words{"worker", 2, "{1}"},
    Words{"version", 3, "version {2} of the parameters of shard {1}"},
    Words{"slot", 3, "slot {2} of step {1}"},
    Words{"token", 2, "a token for {1}"},
    Words{"join", 2, "{1} to join the job"},
    Words{"barrier", 1, "the barrier at the end of the job"},
    Words{"save", 1, "the checkpoint being saved"},
    Words{"choice", 2, "the slots for version {1}"},
    Words{"job", 1, "the training job"},
    Words{"collective", 4, "{3}'s part in a collective"},
};

bool is_part_of_name(std::string_view field) {
  return field.starts_with("job:") || field.starts_with("task:") || field.starts_with("device:");
}

// "actor", "/job:ps/task:0", "shard" of "actor//job:ps/task:0/shard".
std::vector<std::string> fields_of(std::string_view id) {
  std::vector<std::string> out;
  bool in_name = false;
  while (true) {
    const std::size_t end = std::min(id.find('/'), id.size());
    const std::string_view field = id.substr(0, end);
    if (in_name && is_part_of_name(field))
      out.back().append("/").append(field);
    else
      out.emplace_back(field);
    in_name = field.empty() || (in_name && is_part_of_name(field));
    if (end == id.size()) return out;
    id.remove_prefix(end + 1);
  }
}

}  // namespace

std::string describe(std::string_view id) {
  const std::vector<std::string> fields = fields_of(id);
  const auto words = std::ranges::find(kWords, fields[0], &Words::kind);
  if (words == kWords.end() || words->fields != fields.size() - 1) return std::string(id);
  std::string out;
  for (std::size_t at = 0; at < words->text.size(); ++at)
    if (words->text[at] != '{') {
      out += words->text[at];
    } else {
      out += fields[1 + static_cast<std::size_t>(words->text[at + 1] - '0')];
      at += 2;
    }
  return out;
}

}  // namespace troupe::wait_thing
