#include "troupe/actors/cluster/membership_options.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::size_t kHelpColumn = 24;
constexpr std::int64_t kSecondsOfADay = 86400;

template <class Number>
bool is_number(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end;
}

CommandOption text_option(const char* name, const char* value, std::string& target, const char* help) {
  return {name, value, "", help, [&target](const std::string& text) { target = text; }};
}

CommandOption whole_option(const char* name, int& target, int low, int high, const char* help) {
  return {name, "N", target >= low ? std::to_string(target) : "", help,
          [&target, low, high](const std::string& text) { target = static_cast<int>(parse_whole(text, low, high)); }};
}

CommandOption bytes_option(const char* name, std::uint64_t& target, const char* shown, const char* help) {
  return {name, "SIZE", shown, help, [&target](const std::string& text) { target = parse_bytes(text); }};
}

CommandOption flag(const char* name, bool& target, bool value, const char* help) {
  return {name, "", "", help, [&target, value](const std::string&) { target = value; }};
}

template <class Duration>
CommandOption seconds_option(const char* name, Duration& target, const char* help) {
  return {name, "S", std::to_string(std::chrono::duration_cast<std::chrono::seconds>(target).count()), help,
          [&target](const std::string& text) { target = std::chrono::seconds(parse_whole(text, 1, kSecondsOfADay)); }};
}

void take(const CommandOption& option, const std::string& value) try {
  option.take(value);
} catch (const Error& error) {
  throw error.within(option.name);
}

}  // namespace

std::vector<CommandOption> introspection_options(Membership& membership) {
  return {whole_option("--introspect-port", membership.introspect_port, 0, 65535,
                       "Where a browser, troupe-top and Prometheus can look into this task; its address is printed. 0: "
                       "any free port"),
          text_option("--flight-record", "DIR", membership.flight_directory,
                      "Where the last messages of all actors are written when the task fails (by Troupe's own programs "
                      "also on SIGUSR1) [the folder of temporary files]")};
}

std::vector<CommandOption> membership_options(Membership& membership) {
  NetworkOptions& network = membership.network;
  std::vector<CommandOption> all = introspection_options(membership);
  for (CommandOption& option : std::vector<CommandOption>{
           text_option("--job", "JOB", membership.job, "The job of this task in its cluster"),
           whole_option("--task", membership.index, 0, 1'000'000, "The index of this task in its job"),
           text_option("--cluster", "FILE", membership.file, "The cluster file"),
           text_option("--tls-cert", "FILE", network.tls.certificate, "Encrypt: the certificate of this task (PEM)"),
           text_option("--tls-key", "FILE", network.tls.key, "Its key (PEM, without passphrase)"),
           text_option("--tls-ca", "FILE", network.tls.ca,
                       "The CA that has signed the certificates of all tasks (PEM)"),
           flag("--insecure", network.insecure, true,
                "Use addresses that other machines reach, although nothing is encrypted"),
           flag("--no-shared-memory", network.shared_memory, false,
                "TCP to tasks on this host too, in the place of memory that both have"),
           seconds_option("--join-timeout", membership.join_timeout,
                          "Seconds that tasks of the cluster are waited for at the start"),
           seconds_option("--peer-timeout", network.peer_timeout,
                          "Seconds of silence after which a task counts as lost"),
           bytes_option("--max-tensor", network.max_tensor, "2GiB", "Largest tensor that is sent or taken"),
           bytes_option("--in-flight", network.in_flight, "64MiB",
                        "Bytes that each task may send ahead of their receipt"),
           whole_option("--max-connections", network.max_connections, 1, 65536, "Tasks that may be connected at once"),
           seconds_option("--hello-timeout", network.hello_timeout,
                          "Seconds from a connection until it has shown who it is"),
           whole_option("--max-strangers", network.max_strangers, 1, 65536, "Maximum unauthenticated connections")})
    all.push_back(std::move(option));
  return all;
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
      invalid_argument("{}: its value ({}) is missing", option->name, option->value);
    }
  }
  arguments = std::move(rest);
}

std::string help_of(const std::vector<CommandOption>& options) {
  std::string help;
  for (const CommandOption& option : options) {
    const std::string head = fmt::format("  {}{}{}", option.name, option.value.empty() ? "" : " ", option.value);
    help += fmt::format("{:<{}}{}{}{}\n", head, kHelpColumn, head.size() < kHelpColumn ? "" : "  ", option.help,
                        option.default_value.empty() ? "" : fmt::format(" [{}]", option.default_value));
  }
  return help;
}

std::int64_t parse_whole(std::string_view text, std::int64_t low, std::int64_t high) {
  std::int64_t number = 0;
  if (!is_number(text, number) || number < low || number > high)
    invalid_argument("expected a whole number from {} to {}, not '{}'", low, high, text);
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
    invalid_argument("expected a number of bytes such as 1000000, 500MB or 2GiB, not '{}'", text);
  return number;
}

}  // namespace troupe
