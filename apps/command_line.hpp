// What the command lines of all apps have in common: strict numbers, exit codes, the form of messages. Only
// for sources that declare options; CLI11 is a large header.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "apps/early_exit.hpp"
#include <troupe/actors/cluster/gpu_options.hpp>
#include <troupe/actors/cluster/membership_options.hpp>

namespace troupe {

// An app with --help (the description, then the options) and --version. `usage` follows the name in "Usage:
// NAME ...".
std::shared_ptr<CLI::App> make_command_line(const std::string& name, const std::string& usage,
                                            const std::string& description);

// Runs the parser over the arguments without the program's name. None if there is something to run.
std::optional<EarlyExit> parse(CLI::App& app, std::vector<std::string> arguments);

// The number in `text`, which must be a whole number in decimal from low to high. Throws
// CLI::ValidationError.
std::int64_t parse_whole(const std::string& option, const std::string& text, std::int64_t low, std::int64_t high);
std::uint64_t parse_unsigned(const std::string& option, const std::string& text);
// Finite and above zero.
double parse_positive(const std::string& option, const std::string& text);

// An option that takes a whole number from low to high. `target` must outlive the parsing, and shows its
// value as the default if it has one.
void add_whole(CLI::App& app, const std::string& option, int& target, int low, int high, const std::string& help);

// An option that takes whole seconds from low to a day; `target` as for add_whole().
template <class Duration>
void add_seconds(CLI::App& app, const std::string& option, Duration& target, const std::string& help, int low = 1) {
  const auto take = [option, &target, low](const std::string& text) {
    target = std::chrono::seconds(parse_whole(option, text, low, 86400));
  };
  app.add_option_function<std::string>(option, take, help)
      ->type_name("S")
      ->default_str(std::to_string(std::chrono::duration_cast<std::chrono::seconds>(target).count()));
}

// --memory-limit.
void add_memory_limit(CLI::App& app, std::uint64_t& target);

// --gpus, --tf32, --nondeterministic, --no-gpu-graphs and --no-nccl.
void add_gpus(CLI::App& app, GpuOptions& target);

// Options that the library describes: membership_options(), ...
void add(CLI::App& app, const std::vector<CommandOption>& options);

}  // namespace troupe
