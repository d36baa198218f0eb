#include "troupe/messages/command_line.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace troupe {
namespace {

constexpr std::size_t kHelpColumn = 26;
constexpr std::size_t kHelpWidth = 100;

template <class Number>
bool is_number(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end;
}

void take(const CommandOption& option, const std::string& value) try {
  option.take(value);
} catch (const Error& error) {
  throw error.within(option.name);
}

// Wraps `text` in lines that begin at kHelpColumn; the first line begins with `head`, which may extend past it.
std::string wrapped(std::string head, std::string_view text) {
  if (head.size() + 1 > kHelpColumn) head += "\n";
  std::string out, line = head.ends_with('\n') ? "" : head;
  if (head.ends_with('\n')) out = head;
  line.resize(kHelpColumn, ' ');
  bool fresh = true;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!fresh && line.size() + 1 + word.size() > kHelpWidth) {
      out += line + "\n";
      line.assign(kHelpColumn, ' ');
      fresh = true;
    }
    line += fmt::format("{}{}", fresh ? "" : " ", word);
    fresh = false;
  }
  return out + line + "\n";
}

std::string help_line(const CommandOption& option) {
  return wrapped(fmt::format("  {}{}{}", option.name, option.value.empty() ? "" : " ", option.value),
                 option.help + (option.default_value.empty() ? "" : fmt::format(" [{}]", option.default_value)));
}

// A negative number is a value, not an option.
bool is_option(const std::string& word) {
  return word.size() > 1 && word.front() == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

}  // namespace

std::int64_t parse_whole(std::string_view text, std::int64_t low, std::int64_t high) {
  std::int64_t number = 0;
  if (!is_number(text, number) || number < low || number > high)
    invalid_argument("expected a whole number from {} to {}, not '{}'", low, high, text);
  return number;
}

std::uint64_t parse_unsigned(std::string_view text) {
  std::uint64_t number = 0;
  if (!is_number(text, number))
    invalid_argument("expected a whole number from 0 to {}, not '{}'", std::numeric_limits<std::uint64_t>::max(), text);
  return number;
}

double parse_number(std::string_view text, double low, double high) {
  double number = 0;
  if (!is_number(text, number) || !(number >= low && number <= high))
    invalid_argument("expected a number from {} to {}, not '{}'", low, high, text);
  return number;
}

double parse_positive(std::string_view text) {
  double number = 0;
  if (!is_number(text, number) || !std::isfinite(number) || number <= 0)
    invalid_argument("expected a number above 0, not '{}'", text);
  return number;
}

std::uint64_t parse_bytes(std::string_view text) {
  static constexpr std::pair<std::string_view, std::uint64_t> kUnits[] = {{"KiB", 1ull << 10},
                                                                          {"MiB", 1ull << 20},
                                                                          {"GiB", 1ull << 30},
                                                                          {"TiB", 1ull << 40},
                                                                          {"KB", 1'000},
                                                                          {"MB", 1'000'000},
                                                                          {"GB", 1'000'000'000},
                                                                          {"TB", 1'000'000'000'000},
                                                                          {"B", 1},
                                                                          {"", 1}};
  const auto unit = std::ranges::find_if(kUnits, [&](const auto& u) { return text.ends_with(u.first); });
  std::uint64_t number = 0;
  if (!is_number(text.substr(0, text.size() - unit->first.size()), number) || number == 0 ||
      __builtin_mul_overflow(number, unit->second, &number))
    invalid_argument("expected a number of bytes like 1000000, 500MB or 2GiB, not '{}'", text);
  return number;
}

std::string alternatives(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 < names.size() ? ", " : " or ", names[i]);
  return out;
}

CommandOption flag(std::string name, bool& target, std::string help, bool value) {
  return {std::move(name), "", "", std::move(help), [&target, value](const std::string&) { target = value; }};
}

CommandOption text_option(std::string name, std::string value, std::string& target, std::string help) {
  return {std::move(name), std::move(value), target, std::move(help),
          [&target](const std::string& text) { target = text; }};
}

CommandOption number_option(std::string name, std::string value, double& target, double low, double high,
                            std::string help) {
  return {std::move(name), std::move(value), target >= low ? fmt::format("{}", target) : "", std::move(help),
          [&target, low, high](const std::string& text) { target = parse_number(text, low, high); }};
}

CommandOption number_option(std::string name, std::string value, std::chrono::duration<double>& target, double low,
                            double high, std::string help) {
  return {std::move(name), std::move(value), fmt::format("{}", target.count()), std::move(help),
          [&target, low, high](const std::string& text) {
            target = std::chrono::duration<double>(parse_number(text, low, high));
          }};
}

CommandOption positive_option(std::string name, std::string value, double& target, std::string help) {
  return {std::move(name), std::move(value), target > 0 ? fmt::format("{}", target) : "", std::move(help),
          [&target](const std::string& text) { target = parse_positive(text); }};
}

CommandOption unsigned_option(std::string name, std::string value, std::uint64_t& target, std::string help) {
  return {std::move(name), std::move(value), std::to_string(target), std::move(help),
          [&target](const std::string& text) { target = parse_unsigned(text); }};
}

CommandOption bytes_option(std::string name, std::uint64_t& target, std::string shown, std::string help) {
  return {std::move(name), "SIZE", std::move(shown), std::move(help),
          [&target](const std::string& text) { target = parse_bytes(text); }};
}

void take_options(const std::vector<CommandOption>& options, std::vector<std::string>& arguments) {
  std::vector<std::string> rest;
  for (auto at = arguments.begin(); at != arguments.end(); ++at) {
    const std::size_t equals = at->find('=');
    const auto option = std::ranges::find(options, at->substr(0, equals), &CommandOption::name);
    if (option == options.end()) {
      rest.push_back(*at);
    } else if (option->value.empty()) {
      if (equals != std::string::npos) invalid_argument("{}: takes no value", option->name);
      take(*option, "");
    } else if (equals != std::string::npos) {
      take(*option, at->substr(equals + 1));
    } else if (std::next(at) != arguments.end()) {
      take(*option, *++at);
    } else {
      invalid_argument("{}: missing value {}", option->name, option->value);
    }
  }
  arguments = std::move(rest);
}

std::string help_of(const std::vector<CommandOption>& options) {
  std::string help;
  for (const CommandOption& option : options) help += help_line(option);
  return help;
}

int finish(const EarlyExit& exit) {
  // Not fmt::print, which throws on write errors: the caller that ends the output reports those.
  std::fputs(exit.out.c_str(), stdout);
  std::fputs(exit.err.c_str(), stderr);
  return exit.code;
}

EarlyExit wrong_usage(const std::string& program, const std::string& message) {
  return {2, "", fmt::format("{}: {}\nRun with --help for more information.\n", program, message)};
}

void CommandLine::add(std::string title, std::vector<CommandOption> options) {
  groups_.push_back({std::move(title), std::move(options)});
}

void CommandLine::add_arguments(CommandOption argument, std::vector<std::string>& all) {
  argument.take = [&all](const std::string& text) { all.push_back(text); };
  arguments_.push_back(std::move(argument));
  rest_ = &all;
}

const CommandOption* CommandLine::find(std::string_view name) const {
  for (const Group& group : groups_)
    for (const CommandOption& option : group.options)
      if (option.name == name) return &option;
  return nullptr;
}

void CommandLine::take_argument(const std::string& word) {
  if (taken_ == arguments_.size() && rest_ == nullptr) invalid_argument("unexpected argument '{}'", word);
  const CommandOption& argument = arguments_[std::min(taken_, arguments_.size() - 1)];
  take(argument, word);
  given_.push_back(argument.name);
  if (taken_ < arguments_.size()) ++taken_;
}

std::optional<EarlyExit> CommandLine::parse(const std::vector<std::string>& words) try {
  for (auto at = words.begin(); at != words.end(); ++at) {
    if (*at == "--help" || *at == "-h") return EarlyExit{0, help(), ""};
    if (*at == "--version") return EarlyExit{0, fmt::format("{} {}\n", program_, TROUPE_VERSION), ""};
    const bool end = *at == "--";
    if (command_ != nullptr && (end || !is_option(*at))) {
      command_->assign(end ? std::next(at) : at, words.end());
      return std::nullopt;
    }
    if (end) {
      std::for_each(std::next(at), words.end(), [this](const std::string& word) { take_argument(word); });
      return std::nullopt;
    }
    if (is_option(*at)) {
      at = take_option(at, words.end());
    } else {
      take_argument(*at);
    }
  }
  return std::nullopt;
} catch (const Error& error) {
  return wrong(error.message());
}

CommandLine::Words CommandLine::take_option(Words at, Words end) {
  const std::string name = at->substr(0, at->find('='));
  const CommandOption* const option = find(name);
  if (option == nullptr) invalid_argument("'{}' is not an option of {}", name, program_);
  std::vector<std::string> one{*at};
  const bool value_follows = !option->value.empty() && name == *at;
  if (value_follows && std::next(at) != end && find(*std::next(at)) == nullptr) one.push_back(*++at);
  take_options({*option}, one);
  given_.push_back(name);
  return at;
}

bool CommandLine::given(std::string_view name) const { return std::ranges::find(given_, name) != given_.end(); }

std::optional<std::string> CommandLine::conflict(const std::vector<std::string>& names) const {
  std::vector<std::string> both;
  for (const std::string& name : names)
    if (given(name)) both.push_back(name);
  if (both.size() < 2) return std::nullopt;
  return fmt::format("{} and {} cannot be combined", both[0], both[1]);
}

std::string CommandLine::help() const {
  std::string out = fmt::format("Usage: {} {}\n\n{}\n", program_, usage_, description_);
  if (!arguments_.empty()) out += "\nArguments:\n" + help_of(arguments_);
  for (const Group& group : groups_) out += fmt::format("\n{}:\n{}", group.title, help_of(group.options));
  return out + "\nOther:\n" + wrapped("  --help", "Print this help") + wrapped("  --version", "Print the version");
}

}  // namespace troupe
