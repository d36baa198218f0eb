#include "troupe/actors/training/mode_text.hpp"

#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <string>

#include <troupe/graph/formats/text_call.hpp>

namespace troupe {
namespace {

void take_int(TextArguments& arguments, const char* name, int& to) {
  std::int64_t value = to;
  arguments.take(name, value);
  if (value < 0 || value > std::numeric_limits<int>::max()) invalid_argument("{} is out of range: {}", name, value);
  to = static_cast<int>(value);
}
void take_seconds(TextArguments& arguments, const char* name, std::chrono::nanoseconds& to) {
  if (!arguments.find(name)) return;
  double value = 0;
  arguments.take(name, value);
  constexpr double kMost = 1e9;
  if (!(value >= 0 && value <= kMost)) invalid_argument("{} is out of range: {}", name, value);
  to = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(value));
}

void take_servers(TextArguments& arguments, ParameterServers& to) {
  take_int(arguments, "min_workers", to.min_workers);
  take_seconds(arguments, "join_seconds", to.join_timeout);
  take_seconds(arguments, "step_seconds", to.step_timeout);
  take_seconds(arguments, "rejoin_seconds", to.rejoin_timeout);
  std::string on_loss = "shrink";
  arguments.take("on_loss", on_loss);
  if (on_loss == "fail")
    to.on_loss = OnLoss::fail;
  else if (on_loss == "wait")
    to.on_loss = OnLoss::wait;
  else if (on_loss != "shrink")
    invalid_argument("on_loss must be \"fail\", \"shrink\" or \"wait\", not \"{}\"", on_loss);
}

void take(TextArguments& arguments, LocalMode& mode) { take_int(arguments, "slots", mode.slots); }
void take(TextArguments& arguments, SyncMode& mode) {
  take_int(arguments, "slots", mode.slots);
  take_int(arguments, "backups", mode.backups);
  take_servers(arguments, mode.servers);
}
void take(TextArguments& arguments, SspMode& mode) {
  take_int(arguments, "staleness", mode.staleness);
  take_int(arguments, "slots", mode.slots);
  take_int(arguments, "backups", mode.backups);
  take_servers(arguments, mode.servers);
}
void take(TextArguments& arguments, AsyncMode& mode) {
  take_int(arguments, "aggregate", mode.aggregate);
  arguments.take("staleness_aware", mode.staleness_aware);
  take_servers(arguments, mode.servers);
}
void take(TextArguments& arguments, AllReduceMode& mode) { take_seconds(arguments, "step_seconds", mode.step_timeout); }

}  // namespace

JobMode parse_mode(std::string_view text) {
  const TextCall call = parse_call(text);
  const JobMode modes[] = {LocalMode{}, SyncMode{}, SspMode{}, AsyncMode{}, AllReduceMode{}};
  for (JobMode mode : modes) {
    if (name(mode) != call.name) continue;
    try {
      TextArguments arguments(call);
      std::visit([&](auto& given) { take(arguments, given); }, mode);
      arguments.end();
    } catch (const Error& error) {
      throw error.within(fmt::format("mode '{}'", call.name));
    }
    return mode;
  }
  fail(Code::not_found, "there is no mode '{}': use local, sync, ssp, async or allreduce", call.name);
}

}  // namespace troupe
