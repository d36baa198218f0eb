// troupe-top as a process: in a terminal, and without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <functional>

#include "tests/apps/process.hpp"
#include "tests/paths.hpp"
#include "tests/tools/pseudo_terminal.hpp"
#include "tests/tools/top_example.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Process;
using testing::PseudoTerminal;
using ::testing::StartsWith;

class TopProcess : public ::testing::Test {
 protected:
  // What --json printed at 1 s and at 2 s.
  std::string recording() {
    return directory_.write("log",
                            to_json(testing::example_cluster(1)) + "\n" + to_json(testing::example_cluster(2)) + "\n");
  }
  std::vector<std::string> command(std::vector<std::string> options) {
    options.insert(options.begin(), testing::program("troupe-top"));
    return options;
  }
  testing::TemporaryDirectory directory_;
};

const PseudoTerminal::Environment kXterm = {{"TERM", "xterm"}, {"LC_ALL", "C.UTF-8"}};

TEST_F(TopProcess, ShowsTheClusterInEverySize) {
  PseudoTerminal terminal(command({"--read", recording(), "--interval", "0.25"}), kXterm);
  terminal.wait_for("10 steps/s, 640 images/s");
  EXPECT_THAT(terminal.screen(), AllOf(HasSubstr("[1 Summary]"), HasSubstr("worker/2 SILENT"), HasSubstr("█▂"),
                                       HasSubstr("END of the recording")));
  terminal.type("a");
  terminal.wait_for("Push; waits for");
  terminal.type("\x1bOB");  // down, as xterm says it
  terminal.wait_for(">ps/0     shard");
  terminal.type("\r");
  terminal.wait_for("mailbox    3 now, 57 at most");
  EXPECT_THAT(terminal.screen(), Not(HasSubstr("staleness in updates")));
  terminal.resize(100, 44);
  terminal.wait_for("staleness in updates");
  terminal.resize(20, 4);
  terminal.wait_until_gone("staleness in updates");
  terminal.resize(80, 24);
  terminal.type("\x1b");
  terminal.wait_for("Push; waits for");
}

TEST_F(TopProcess, EndsAsItIsToldAndGivesTheTerminalBack) {
  const auto ended = [&](const std::function<void(PseudoTerminal&)>& end) {
    PseudoTerminal terminal(command({"--read", recording()}), kXterm);
    const termios before = terminal.settings();
    terminal.wait_for("[1 Summary]");
    EXPECT_EQ(terminal.settings().c_lflag & (ECHO | ICANON), 0u);
    end(terminal);
    const int code = terminal.wait();
    EXPECT_THAT(terminal.bytes(), HasSubstr("\x1b[?1049h"));
    EXPECT_GT(terminal.bytes().rfind("\x1b[?1049l"), terminal.bytes().rfind("Summary"));  // the screen from before
    EXPECT_THAT(terminal.bytes().substr(terminal.bytes().rfind("\x1b[?1049l")), HasSubstr("\x1b[?1l"));
    const termios after = terminal.settings();
    EXPECT_EQ(after.c_lflag, before.c_lflag);
    EXPECT_EQ(after.c_iflag, before.c_iflag);
    EXPECT_EQ(after.c_oflag, before.c_oflag);
    return code;
  };
  EXPECT_EQ(ended([](PseudoTerminal& terminal) { terminal.type("q"); }), 0);
  EXPECT_EQ(ended([](PseudoTerminal& terminal) { terminal.type("\x03"); }), 130);
  EXPECT_EQ(ended([](PseudoTerminal& terminal) { terminal.signal(SIGINT); }), 130);
  EXPECT_EQ(ended([](PseudoTerminal& terminal) { terminal.signal(SIGTERM); }), 143);
}

TEST_F(TopProcess, EndsWhenItsTerminalIsGone) {
  PseudoTerminal terminal(command({"--read", recording()}), kXterm);
  terminal.wait_for("[1 Summary]");
  terminal.hang_up();
  EXPECT_EQ(terminal.wait(), 128 + SIGHUP);
}

TEST_F(TopProcess, SpeaksAsciiWhereThatIsAllThereIs) {
  PseudoTerminal terminal(command({"--read", recording()}), {{"TERM", "vt100"}, {"LC_ALL", "C"}});
  terminal.wait_for("10 steps/s");
  terminal.type("a\x1bOB");
  terminal.wait_for("Push; waits for sl~");
  terminal.type("q");
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_TRUE(std::ranges::all_of(terminal.bytes(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}

TEST_F(TopProcess, NamesDoNotCommandTheTerminal) {
  ClusterSnapshot cluster = testing::example_cluster(1);
  cluster.tasks[0].snapshot->actors[0].name =
      "evil\x1b]0;owned\x07\x1b[2J\u202e\u009b"
      "31m";
  const std::string file = directory_.write("evil", to_json(cluster) + "\n");
  PseudoTerminal terminal(command({"--read", file}), kXterm, 160);
  terminal.wait_for("[1 Summary]");
  terminal.type("a");
  terminal.wait_for("evil");
  terminal.type("q");
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_THAT(terminal.bytes(), AllOf(Not(HasSubstr("\x1b]")), Not(HasSubstr("\x07")), Not(HasSubstr("\u202e")),
                                      Not(HasSubstr("\u009b"))));
  Process once(command({"--read", file}));
  EXPECT_EQ(once.wait(), 0);
  EXPECT_THAT(once.out,
              AllOf(HasSubstr("evil"), Not(HasSubstr("\x1b")), Not(HasSubstr("\x07")), Not(HasSubstr("\u009b"))));
}

TEST_F(TopProcess, AnUnknownTerminalIsNamed) {
  PseudoTerminal terminal(command({"--read", recording()}), {{"TERM", "paper"}});
  EXPECT_EQ(terminal.wait(), 1);
  EXPECT_THAT(terminal.bytes(),
              HasSubstr("unknown terminal 'paper'; set TERM (for example TERM=xterm), or use --once"));
}

TEST_F(TopProcess, PrintsOnePageWithoutATerminal) {
  const std::string file = recording();
  Process plain(command({"--read", file})), once(command({"--once", "--read", file})),
      why(command({"--why", "--read", file}));
  for (Process* process : {&plain, &once, &why}) EXPECT_EQ(process->wait(), 0) << process->err;
  EXPECT_EQ(plain.out, once.out);
  EXPECT_THAT(once.out, AllOf(StartsWith("demo, 4 tasks, asked ps/0\n"), HasSubstr("10 steps/s, 640 images/s"),
                              HasSubstr("\nACTORS\n"), HasSubstr("\nWHY\n")));
  EXPECT_THAT(why.out, Not(IsEmpty()));
  for (const auto& [which, process] : {std::pair("plain", &plain), {"once", &once}, {"why", &why}})
    EXPECT_THAT(process->err, IsEmpty()) << which;
}

TEST_F(TopProcess, PrintsASnapshotThatCanBeReadAgain) {
  Process json(command({"--json", "--read", recording()}));
  EXPECT_EQ(json.wait(), 0);
  EXPECT_EQ(json.out, to_json(testing::example_cluster(2)) + "\n");
  Process once(command({"--once", "--read", directory_.write("one", json.out)}));  // there is nothing to make rates of
  EXPECT_EQ(once.wait(), 0);
  EXPECT_THAT(once.out, HasSubstr("- steps/s, - images/s"));
}

TEST_F(TopProcess, RefusesWhatIsWrong) {
  const std::string file = recording();
  for (const auto& wrong : std::vector<std::vector<std::string>>{{},
                                                                 {"--json"},
                                                                 {"--interval", "0", "--read", file},
                                                                 {"--why", "--json", "--read", file},
                                                                 {"--read", file, "--cluster", file},
                                                                 {"--provenance", "1", "--json", "--cluster", file},
                                                                 {"--sort"}}) {
    SCOPED_TRACE(::testing::PrintToString(wrong));
    Process refused(command(wrong));
    EXPECT_EQ(refused.wait(), 2);
    EXPECT_THAT(refused.out, IsEmpty());
    EXPECT_THAT(refused.err, HasSubstr("--help"));
  }
  Process gone(command({"--once", "--read", (directory_.path() / "gone").string()})),
      empty(command({"--once", "--read", directory_.write("empty", "\n")})),
      torn(command(
          {"--once", "--read", directory_.write("torn", to_json(testing::example_cluster(1)) + "\n{\"tasks\":")}));
  for (const auto& [which, process] : {std::pair("gone", &gone), {"empty", &empty}, {"torn", &torn}})
    EXPECT_EQ(process->wait(), 1) << which;
  EXPECT_THAT(gone.err, HasSubstr("/gone: No such file"));
  EXPECT_THAT(empty.err, HasSubstr("no snapshots in the file"));
  EXPECT_THAT(torn.err, HasSubstr("/torn, line 2: malformed snapshot"));
}

TEST_F(TopProcess, TeachesWhatItDoes) {
  Process help(command({"--help"}));
  EXPECT_EQ(help.wait(), 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("--why"), HasSubstr("--once"), HasSubstr("--read"), HasSubstr("Examples"),
                              HasSubstr("? shows the keys")));
}

}  // namespace
}  // namespace troupe
