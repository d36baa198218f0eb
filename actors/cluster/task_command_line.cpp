// Task::from_command_line().
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <troupe/actors/cluster/membership_options.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// Moves the remaining arguments behind the program's name, followed by a null as in main().
void keep(const std::vector<std::string>& left, int& argc, char** argv) {
  int kept = 1;
  for (int i = 1; i < argc && static_cast<std::size_t>(kept) <= left.size(); ++i)
    if (left[static_cast<std::size_t>(kept - 1)] == argv[i]) argv[kept++] = argv[i];
  argc = kept;
  argv[argc] = nullptr;
}

}  // namespace

std::unique_ptr<Task> Task::from_command_line(int& argc, char** argv, TaskOptions options) {
  Membership membership;
  if (argc > 0) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    take_options(membership_options(membership), arguments);
    keep(arguments, argc, argv);
  }
  const std::string program = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "troupe";
  auto handshake = LaunchHandshake::from_environment();
  std::unique_ptr<Task> task;
  if (handshake || membership.given()) {
    if (const auto problem = membership.problem(handshake.has_value())) invalid_argument("{}", *problem);
    Member member = start_member(membership, handshake ? &*handshake : nullptr, std::move(options),
                                 std::chrono::steady_clock::now() + membership.join_timeout);
    if (const auto warning = token_warning(member.cluster, membership.network))
      fmt::print(stderr, "{}: {}\n", program, *warning);
    member.join_for_training(membership.join_timeout);
    task = std::move(member.task);
  } else {
    membership.set(options);
    task = std::make_unique<Task>(std::move(options));
  }
  // All tasks of a launcher have the same options: the port is for the first worker.
  const bool asked = membership.introspect_port >= 0 && (!handshake || task->name() == TaskName{"worker", 0});
  if (const auto note = introspection_note(*task); note && asked) fmt::print(stderr, "{}: {}\n", program, *note);
  return task;
}

std::string Task::command_line_help() {
  Membership defaults;
  return help_of(membership_options(defaults));
}

}  // namespace troupe
