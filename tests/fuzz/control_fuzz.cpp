#include "tests/fuzz/control_fuzz.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/message.hpp>
#include <caf/scoped_execution_unit.hpp>

#include <troupe/actors/network/control_guard.hpp>
#include <troupe/messages/caf/types.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// One for all inputs: it has threads.
class System {
 public:
  static System& get() {
    static System* const system = new System;  // for ever: its end takes longer than an input
    return *system;
  }
  std::string bytes_of(const caf::node_id& node) {
    std::vector<char> out;
    caf::binary_serializer sink(&unit_, out);
    static_cast<void>(sink(node));
    return {out.begin(), out.end()};
  }
  std::string bytes_of(const caf::message& message) {
    std::vector<char> out;
    caf::binary_serializer sink(&unit_, out);
    static_cast<void>(sink(std::vector<caf::strong_actor_ptr>(), message));
    return {out.begin(), out.end()};
  }
  // As CAF reads a message that has come; an error of its own is as good as an end.
  void read(std::string_view payload) {
    caf::binary_deserializer source(&unit_, payload.data(), payload.size());
    std::vector<caf::strong_actor_ptr> stages;
    caf::message message;
    static_cast<void>(source(stages, message));
  }

 private:
  System() : system_(configure(config_)), unit_(&system_) {}
  static caf::actor_system_config& configure(caf::actor_system_config& config) {
    register_message_types(config);
    config.set("scheduler.max-threads", 1u);
    config.set("logger.verbosity", caf::atom("quiet"));
    return config;
  }
  caf::actor_system_config config_;
  caf::actor_system system_;
  caf::scoped_execution_unit unit_;
};

caf::node_id node_at(std::uint8_t place) {
  caf::node_id::default_data::host_id_type host;
  host.fill(place);
  return caf::make_node_id(42, host);
}

std::string header(int operation, std::size_t payload, std::uint64_t data = 0, std::uint64_t source = 0,
                   std::uint64_t destination = 0, int flags = 0) {
  std::string out{static_cast<char>(operation), 0, 0, static_cast<char>(flags)};
  const auto append = [&](std::uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
  };
  append(payload, 4);
  append(data, 8);
  append(source, 8);
  append(destination, 8);
  return out;
}

}  // namespace

std::size_t say_as_member(std::string_view input) {
  if (input.empty()) return 0;
  static const std::string own = System::get().bytes_of(node_at(1));
  ControlGuard guard(own, (input[0] & 1) != 0);
  input.remove_prefix(1);
  std::size_t passed = 0;
  try {
    while (input.size() >= ControlGuard::kHeaderBytes) {
      const int operation = input[0];
      const std::size_t size = guard.check_header(input.substr(0, ControlGuard::kHeaderBytes));
      input.remove_prefix(ControlGuard::kHeaderBytes);
      if (size > input.size()) break;
      const std::string_view payload = input.substr(0, size);
      if (guard.ignored()) {
        input.remove_prefix(size);
        continue;
      }
      if (size > 0) guard.check_payload(payload);
      if (operation == 2) System::get().read(payload);
      input.remove_prefix(size);
      ++passed;
    }
  } catch (const Error&) {
  }
  return passed;
}

std::vector<std::string> member_seeds() {
  System& system = System::get();
  const std::string peer = system.bytes_of(node_at(2)), own = system.bytes_of(node_at(1));
  const std::string greeting = header(1, peer.size()) + peer;
  std::vector<std::string> out;
  std::string all = '\0' + greeting;
  for (const caf::message& message :
       {caf::make_message(RegisterGraphRequest{"graph"}), caf::make_message(CloseSessionRequest{5}),
        caf::make_message(ResetContainerRequest{"container"}), caf::make_message(Reply{5, "why", "body"}),
        caf::make_message(caf::error()), caf::make_message(caf::make_error(caf::sec::request_timeout)),
        caf::make_message(caf::make_error(caf::sec::unknown_type, std::string("a type")))}) {
    const std::string payload = system.bytes_of(message);
    const std::string bytes = header(2, payload.size(), 3, 4, 5) + payload;
    out.push_back('\0' + greeting + bytes);
    all += bytes;
  }
  const std::string no_error = system.bytes_of(caf::make_message(caf::error())), error = no_error.substr(14);
  all +=
      header(4, 64, 0, 0, 5) + peer + own + header(5, 64 + error.size(), 0, 4, 0) + peer + own + error + header(6, 0);
  out.push_back(all);
  const std::string server = peer + "\1\3caf" + std::string(8, '\1') + "\1\5types";
  out.push_back('\1' + header(0, server.size(), 3) + server);
  return out;
}

}  // namespace troupe
