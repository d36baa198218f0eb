#include "apps/command_line.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>

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
  std::int64_t number = 0;
  if (!parse_all(text, number) || number < low || number > high) {
    throw CLI::ValidationError(option, fmt::format("expected a whole number from {} to {}, not '{}'", low, high, text));
  }
  return number;
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

std::uint64_t parse_bytes(const std::string& option, const std::string& text) {
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
  if (!parse_all(text.substr(0, text.size() - unit->first.size()), number) || number == 0 ||
      __builtin_mul_overflow(number, unit->second, &number)) {
    throw CLI::ValidationError(
        option, fmt::format("expected a number of bytes such as 1000000, 500MB or 2GiB, not '{}'", text));
  }
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
  const auto take = [option, &target](const std::string& text) { target = parse_bytes(option, text); };
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

void add_introspection(CLI::App& app, Membership& membership) {
  add_whole(
      app, "--introspect-port", membership.introspect_port, 0, 65535,
      "Where a browser, troupe-top and Prometheus can look into this task; its address is printed. 0: any free port");
  app.add_option("--flight-record", membership.flight_directory,
                 "Where the last messages of all actors are written when the task fails, and on SIGUSR1 [the folder of "
                 "temporary files]")
      ->type_name("DIR");
}

void add_membership(CLI::App& app, Membership& membership) {
  add_introspection(app, membership);
  NetworkOptions& network = membership.network;
  app.add_option("--job", membership.job, "The job of this task in its cluster")->type_name("JOB");
  add_whole(app, "--task", membership.index, 0, 1'000'000, "The index of this task in its job");
  app.add_option("--cluster", membership.file, "The cluster file")->type_name("FILE");
  app.add_option("--tls-cert", network.tls.certificate, "Encrypt: the certificate of this task (PEM)")
      ->type_name("FILE");
  app.add_option("--tls-key", network.tls.key, "Its key (PEM, without passphrase)")->type_name("FILE");
  app.add_option("--tls-ca", network.tls.ca, "The CA that has signed the certificates of all tasks (PEM)")
      ->type_name("FILE");
  app.add_flag("--insecure", network.insecure,
               "Use addresses that other machines reach, although nothing is encrypted");
  app.add_flag("!--no-shared-memory", network.shared_memory,
               "TCP to tasks on this host too, in the place of memory that both have");
  add_seconds(app, "--join-timeout", membership.join_timeout,
              "Seconds that tasks of the cluster are waited for at the start");
  add_seconds(app, "--peer-timeout", network.peer_timeout, "Seconds of silence after which a task counts as lost");
  add_bytes(app, "--max-tensor", network.max_tensor, "2GiB", "Largest tensor that is sent or taken");
  add_bytes(app, "--in-flight", network.in_flight, "64MiB", "Bytes that each task may send ahead of their receipt");
  add_whole(app, "--max-connections", network.max_connections, 1, 65536, "Tasks that may be connected at once");
  add_seconds(app, "--hello-timeout", network.hello_timeout, "Seconds from a connection until it has shown who it is");
  add_whole(app, "--max-strangers", network.max_strangers, 1, 65536,
            "Connections that have not yet shown who they are");
}

}  // namespace troupe
