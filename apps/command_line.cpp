#include "apps/command_line.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) { column_width(24); }
  std::string make_usage(const CLI::App*, std::string) const override { return usage_; }

 private:
  std::string usage_;
};

template <class Number>
bool parse_all(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end;
}

// What parse() returns; its error as CLI11 takes it.
template <class Parse>
auto parsed(const std::string& option, Parse&& parse) {
  try {
    return parse();
  } catch (const Error& error) {
    throw CLI::ValidationError(option, error.message());
  }
}

}  // namespace

std::shared_ptr<CLI::App> make_command_line(const std::string& name, const std::string& usage,
                                            const std::string& description) {
  auto app = std::make_shared<CLI::App>(description, name);
  app->formatter(std::make_shared<HelpFormatter>(fmt::format("Usage: {} {}\n", name, usage)));
  app->set_version_flag("--version", fmt::format("{} {}", name, TROUPE_VERSION));
  return app;
}

std::optional<EarlyExit> parse(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    app.parse(std::move(arguments));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    return EarlyExit{0, app.help(), ""};
  } catch (const CLI::CallForVersion& version) {
    return EarlyExit{0, fmt::format("{}\n", version.what()), ""};
  } catch (const CLI::ParseError& error) {
    return wrong_usage(app.get_name(), error.what());
  }
}

int finish(const EarlyExit& exit) {
  // Not fmt::print, which throws where a write fails: who ends the output says so.
  std::fputs(exit.out.c_str(), stdout);
  std::fputs(exit.err.c_str(), stderr);
  return exit.code;
}

EarlyExit wrong_usage(const std::string& program, const std::string& message) {
  return {2, "", fmt::format("{}: {}\nRun with --help for more information.\n", program, message)};
}

std::int64_t parse_whole(const std::string& option, const std::string& text, std::int64_t low, std::int64_t high) {
  return parsed(option, [&] { return parse_whole(text, low, high); });
}

std::uint64_t parse_unsigned(const std::string& option, const std::string& text) {
  std::uint64_t number = 0;
  if (!parse_all(text, number)) {
    throw CLI::ValidationError(option, fmt::format("expected a whole number from 0 to {}, not '{}'",
                                                   std::numeric_limits<std::uint64_t>::max(), text));
  }
  return number;
}

double parse_positive(const std::string& option, const std::string& text) {
  double number = 0;
  if (!parse_all(text, number) || !std::isfinite(number) || number <= 0)
    throw CLI::ValidationError(option, fmt::format("expected a number above 0, not '{}'", text));
  return number;
}

void add_whole(CLI::App& app, const std::string& option, int& target, int low, int high, const std::string& help) {
  const auto take = [=, &target](const std::string& text) {
    target = static_cast<int>(parse_whole(option, text, low, high));
  };
  CLI::Option* added = app.add_option_function<std::string>(option, take, help)->type_name("N");
  if (target >= low) added->default_str(std::to_string(target));
}

void add_bytes(CLI::App& app, const std::string& option, std::uint64_t& target, const std::string& shown,
               const std::string& help) {
  const auto take = [option, &target](const std::string& text) {
    target = parsed(option, [&] { return parse_bytes(text); });
  };
  CLI::Option* added = app.add_option_function<std::string>(option, take, help)->type_name("SIZE");
  if (!shown.empty()) added->default_str(shown);
}

void add_memory_limit(CLI::App& app, std::uint64_t& target) {
  add_bytes(app, "--memory-limit", target, "", "Most memory for the tensors of each device, such as 2GiB");
}

void add_gpus(CLI::App& app, GpuOptions& target) {
  add_whole(app, "--gpus", target.count, 0, 1024,
            "GPUs of this machine to use (default: all there are; none for parameter servers)");
  app.add_flag("--tf32", target.tf32,
               "On GPUs, products of f32 may round what they multiply to 10 bits of mantissa, which is faster");
  app.add_flag("--nondeterministic{false}", target.deterministic,
               "On GPUs, let sums take any order, where that is faster: results differ from run to run");
  app.add_flag(
      "--no-gpu-graphs{false}", target.recordings,
      "On GPUs, launch each kernel of a step by itself, also in steps that repeat: slower, for finding errors");
  app.add_flag(
      "--no-nccl{false}", target.nccl,
      "Let what GPUs of several tasks add up travel through the host, also where NCCL could take it from GPU to GPU");
}

void add(CLI::App& app, const std::vector<CommandOption>& options) {
  for (const CommandOption& option : options) {
    const auto take = [option](const std::string& text) {
      parsed(option.name, [&] {
        option.take(text);
        return 0;
      });
    };
    if (option.value.empty()) {
      app.add_flag_callback(
          option.name, [take] { take(""); }, option.help);
      continue;
    }
    CLI::Option* added = app.add_option_function<std::string>(option.name, take, option.help)->type_name(option.value);
    if (!option.default_value.empty()) added->default_str(option.default_value);
  }
}

}  // namespace troupe
