// A task for the tests of troupe-launch:  fake_task [JOB/INDEX=ACTION | WORD]... --job J --task I
// Does the handshake and then what the ACTION of its name says:
//   finish (default)  prints the cluster file and its words if it is the chief, and ends
//   fail              ends with code 3
//   early             ends with code 4, before the handshake
//   silent-once:DIR   kills itself before it reports, and finishes if it did that before
//   told-once:DIR     likewise, once it has reported
//   gpus              prints CUDA_VISIBLE_DEVICES on stderr, and ends
//   mute              never reports
//   babble            reports something that is no address
//   wait              waits for SIGTERM and ends with code 0
//   stubborn          waits, and ignores SIGTERM
//   orphan            leaves a grandchild behind, in a session of its own, that ignores SIGTERM; ends with code 0
//   crash             kills itself with SIGABRT
//   killed            likewise with SIGKILL
//   until:FIFO        waits until FIFO has been opened for writing, and ends with code 0
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <troupe/actors/cluster/launch_handshake.hpp>
#include <troupe/messages/error.hpp>

namespace {

struct Arguments {
  std::string job, index;
  std::string action = "finish";
  std::vector<std::string> words;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 4 || words[words.size() - 4] != "--job" || words[words.size() - 2] != "--task") std::exit(70);
  arguments.job = words[words.size() - 3];
  arguments.index = words.back();
  words.resize(words.size() - 4);
  const std::string mine = arguments.job + "/" + arguments.index + "=";
  for (const std::string& word : words) {
    if (word.starts_with(mine)) arguments.action = word.substr(mine.size());
  }
  arguments.words = std::move(words);
  return arguments;
}

void say_ready() { std::cerr << "ready" << std::endl; }

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);  // the launcher passes Ctrl-C on
  sigaddset(&set, SIGTERM);
  return set;
}

// Until SIGTERM or SIGINT, which main has blocked.
void wait_for_signal() {
  const sigset_t set = ending_signals();
  say_ready();
  int number = 0;
  sigwait(&set, &number);
  std::cerr << "ending orderly" << std::endl;
}

[[noreturn]] void wait_for_ever() {
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  say_ready();
  for (;;) pause();
}

void leave_orphan() {
  if (const pid_t child = fork(); child != 0) {
    waitpid(child, nullptr, 0);
    return;
  }
  setsid();
  if (fork() != 0) _exit(0);
  wait_for_ever();
}

void die_once(const std::string& action) {
  if (mkdir((action.substr(action.find(':') + 1) + "/died").c_str(), 0700) == 0) raise(SIGKILL);
}

void print_cluster(const std::string& path, const std::vector<std::string>& words) {
  std::ifstream file(path);
  std::cout << path << "\n" << file.rdbuf();
  for (const std::string& word : words) std::cout << "word " << word << "\n";
  std::cout << "unfinished line" << std::flush;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  const std::string& action = arguments.action;
  if (action == "early") return 4;
  if (action.starts_with("silent-once:")) die_once(action);
  // From now on: the launcher may ask a task to end before it has come to what it does.
  if (action == "stubborn") signal(SIGTERM, SIG_IGN);
  if (const sigset_t set = ending_signals(); action == "wait") sigprocmask(SIG_BLOCK, &set, nullptr);
  auto handshake = troupe::LaunchHandshake::from_environment();
  if (!handshake) return 71;
  if (action == "mute") wait_for_ever();
  if (action == "babble") handshake->report("no address", 0);
  handshake->report("127.0.0.1",
                    static_cast<std::uint16_t>((arguments.job == "ps" ? 7000 : 8000) + std::stoi(arguments.index)));
  if (action.starts_with("told-once:")) die_once(action);
  std::string path;
  try {
    path = handshake->known_cluster_file();  // of one that is started again
    if (path.empty())
      path = handshake->wait_for_cluster_file(std::chrono::steady_clock::now() + std::chrono::minutes(1));
  } catch (const troupe::Error& e) {
    std::cerr << e.to_string() << std::endl;
    return 72;
  }
  if (action == "gpus") std::cerr << "GPUs '" << getenv("CUDA_VISIBLE_DEVICES") << "'" << std::endl;
  if (action == "fail") return 3;
  if (action == "crash") abort();
  if (action == "killed") raise(SIGKILL);
  if (action.starts_with("until:")) {
    std::ifstream(action.substr(action.find(':') + 1)).get();
    std::cout << "through the gate" << std::endl;
  }
  if (action == "wait") wait_for_signal();
  if (action == "stubborn") wait_for_ever();
  if (action == "orphan") leave_orphan();
  if (action == "finish" && arguments.job == "worker" && arguments.index == "0") print_cluster(path, arguments.words);
  if (action == "finish" && arguments.job == "ps") std::cout << "stdout of ps\nmore" << std::flush;
  return 0;
}
