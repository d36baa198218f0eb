// The command line of a program as one table: each option appears once, with its name, target field, default and help.
// The table parses the arguments, prints --help, and thus generates the pages of docs/reference.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/messages/error.hpp>

namespace troupe {

struct CommandOption {
  std::string name;           // "--task"; for an argument without dashes, "CASE"
  std::string value;          // the value's name in the help; "": the option is a flag
  std::string default_value;  // shown in the help; "": none
  std::string help;
  // Called with the value, "" for a flag. Throws invalid_argument saying what it expects, without the option's name.
  std::function<void(const std::string&)> take;
};

// Parse a whole decimal number from low to high, a number, bytes (a whole number above 0, optionally followed by B, KB,
// MB, GB, TB, KiB, MiB, GiB or TiB). Throw invalid_argument saying what is expected.
std::int64_t parse_whole(std::string_view text, std::int64_t low, std::int64_t high);
std::uint64_t parse_unsigned(std::string_view text);
double parse_number(std::string_view text, double low, double high);
double parse_positive(std::string_view text);
std::uint64_t parse_bytes(std::string_view text);
// "a, b or c".
std::string alternatives(const std::vector<std::string>& names);

// Rows of a table. All keep a reference to `target`, which must outlive them, and show its value as the default unless
// it is below `low`, which means "not given".
CommandOption flag(std::string name, bool& target, std::string help, bool value = true);
CommandOption text_option(std::string name, std::string value, std::string& target, std::string help);
CommandOption number_option(std::string name, std::string value, double& target, double low, double high,
                            std::string help);
CommandOption number_option(std::string name, std::string value, std::chrono::duration<double>& target, double low,
                            double high, std::string help);
// Any number above 0.
CommandOption positive_option(std::string name, std::string value, double& target, std::string help);
CommandOption unsigned_option(std::string name, std::string value, std::uint64_t& target, std::string help);
CommandOption bytes_option(std::string name, std::uint64_t& target, std::string shown, std::string help);

template <class Whole>
CommandOption whole_option(std::string name, std::string value, Whole& target, std::int64_t low, std::int64_t high,
                           std::string help) {
  const auto now = static_cast<std::int64_t>(target);
  return {std::move(name), std::move(value), now >= low ? std::to_string(now) : "", std::move(help),
          [&target, low, high](const std::string& text) { target = static_cast<Whole>(parse_whole(text, low, high)); }};
}

template <class Whole>
CommandOption optional_option(std::string name, std::string value, std::optional<Whole>& target, std::int64_t low,
                              std::int64_t high, std::string help) {
  return {std::move(name), std::move(value), "", std::move(help),
          [&target, low, high](const std::string& text) { target = static_cast<Whole>(parse_whole(text, low, high)); }};
}

// Whole seconds up to a day.
template <class Duration>
CommandOption seconds_option(std::string name, Duration& target, std::string help, int low = 1) {
  constexpr std::int64_t kDay = 86400;
  return {std::move(name), "S", std::to_string(std::chrono::duration_cast<std::chrono::seconds>(target).count()),
          std::move(help),
          [&target, low](const std::string& text) { target = std::chrono::seconds(parse_whole(text, low, kDay)); }};
}

// One of the names in `choices`; the first with the target's value is the default.
template <class T>
CommandOption choice_option(std::string name, T& target, std::vector<std::pair<std::string, T>> choices,
                            std::string help) {
  CommandOption option{std::move(name), "", "", std::move(help), {}};
  std::vector<std::string> names;
  for (const auto& [text, value] : choices) {
    option.value += (names.empty() ? "" : "|") + text;
    if (option.default_value.empty() && value == target) option.default_value = text;
    names.push_back(text);
  }
  option.take = [&target, choices = std::move(choices), expected = alternatives(names)](const std::string& text) {
    for (const auto& [known, value] : choices)
      if (known == text) {
        target = value;
        return;
      }
    invalid_argument("expected {}, not '{}'", expected, text);
  };
  return option;
}

// Choices of an enum whose values have names: name(value).
template <class T>
std::vector<std::pair<std::string, T>> by_name(std::initializer_list<T> values) {
  std::vector<std::pair<std::string, T>> choices;
  for (const T value : values) choices.emplace_back(name(value), value);
  return choices;
}

// Removes the options from the arguments, given as "--task 1" or "--task=1" in any place; the other arguments keep
// their order. Throws invalid_argument naming the option.
void take_options(const std::vector<CommandOption>& options, std::vector<std::string>& arguments);
// One or more lines for each option, as in --help.
std::string help_of(const std::vector<CommandOption>& options);

// The result of a command line with nothing to run: --help, --version, or wrong usage.
struct EarlyExit {
  int code = 0;     // of the process
  std::string out;  // for stdout
  std::string err;  // for stderr
};
// Prints both texts and returns the code.
int finish(const EarlyExit& exit);
// Wrong usage: "PROGRAM: MESSAGE", a pointer to --help, and exit code 2.
EarlyExit wrong_usage(const std::string& program, const std::string& message);

class CommandLine {
 public:
  // `usage` follows the name in "Usage: NAME ...". Indented lines of the description are examples.
  CommandLine(std::string program, std::string usage, std::string description)
      : program_(std::move(program)), usage_(std::move(usage)), description_(std::move(description)) {}

  // Adds options under a heading of the help.
  void add(std::string title, std::vector<CommandOption> options);
  // Adds an argument without dashes, in order; it is described like an option.
  void add_argument(CommandOption argument) { arguments_.push_back(std::move(argument)); }
  // The first argument without dashes, or the words after "--", start a separate command, which is kept verbatim.
  void end_with_command(std::vector<std::string>& command) { command_ = &command; }
  // Accepts any number of arguments without dashes.
  void add_arguments(CommandOption argument, std::vector<std::string>& all);

  // Parses the words into the fields. Returns nothing if the program should run.
  std::optional<EarlyExit> parse(const std::vector<std::string>& words);
  // After parse(): whether the option was given.
  bool given(std::string_view name) const;
  // If more than one of the options `names` was given: "--a and --b cannot be combined".
  std::optional<std::string> conflict(const std::vector<std::string>& names) const;
  EarlyExit wrong(const std::string& message) const { return wrong_usage(program_, message); }
  std::string help() const;

 private:
  using Words = std::vector<std::string>::const_iterator;

  const CommandOption* find(std::string_view name) const;
  Words take_option(Words at, Words end);  // returns the option's last word
  void take_argument(const std::string& word);

  struct Group {
    std::string title;
    std::vector<CommandOption> options;
  };
  std::string program_, usage_, description_;
  std::vector<Group> groups_;
  std::vector<CommandOption> arguments_;
  std::vector<std::string>* rest_ = nullptr;     // for the last of arguments_, if it takes any number
  std::vector<std::string>* command_ = nullptr;  // receives the command
  std::vector<std::string> given_;
  std::size_t taken_ = 0;  // of arguments_
};

}  // namespace troupe
