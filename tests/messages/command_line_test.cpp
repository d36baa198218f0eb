#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/messages/command_line.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

enum class Colour { red, green };

// A program with an option of each kind.
struct Program {
  Program() {
    line.add_argument(text_option("FIRST", "", first, "The first argument"));
    line.add("Options",
             {whole_option("--count", "N", count, 0, 9, "A whole number"),
              whole_option("--size", "N", size, 1, 9, "Not given if it is -1"),
              number_option("--ratio", "R", ratio, 0.5, 2, "A number"),
              positive_option("--rate", "R", rate, "Any number above 0"), seconds_option("--wait", wait, "Seconds"),
              bytes_option("--memory", memory, "2GiB", "Bytes"),
              optional_option("--port", "PORT", port, 0, 65535, "None or a port"),
              choice_option("--colour", colour, {{"red", Colour::red}, {"green", Colour::green}}, "One of")});
    line.add("Flags", {flag("--json", json, "On"), flag("--plain", fancy, "Off", false)});
  }
  std::string error(const Words& words) {
    const auto exit = line.parse(words);
    if (!exit) return "accepted";
    EXPECT_EQ(exit->code, 2);
    EXPECT_EQ(exit->out, "");
    return exit->err;
  }

  CommandLine line{"program", "[FIRST] [OPTIONS]", "Shows what a command line can be."};
  std::string first;
  int count = 3, size = -1;
  double ratio = 1, rate = 0.25;
  std::chrono::milliseconds wait{5000};
  std::uint64_t memory = 0;
  std::optional<std::uint16_t> port;
  Colour colour = Colour::green;
  bool json = false, fancy = true;
};

TEST(CommandLine, FillsTheFieldsOfItsOptions) {
  Program p;
  EXPECT_EQ(p.line.parse({"--count", "7", "word", "--size=2", "--ratio", "1.5", "--rate", "1e-3", "--wait", "6",
                          "--memory", "1KiB", "--port", "80", "--colour", "red", "--json", "--plain"}),
            std::nullopt);
  EXPECT_EQ(p.count, 7);
  EXPECT_EQ(p.first, "word");
  EXPECT_EQ(p.size, 2);
  EXPECT_EQ(p.ratio, 1.5);
  EXPECT_EQ(p.rate, 1e-3);
  EXPECT_EQ(p.wait, std::chrono::seconds(6));
  EXPECT_EQ(p.memory, 1024u);
  EXPECT_EQ(p.port, 80);
  EXPECT_EQ(p.colour, Colour::red);
  EXPECT_TRUE(p.json);
  EXPECT_FALSE(p.fancy);
  EXPECT_TRUE(p.line.given("--json"));
  EXPECT_FALSE(Program().line.given("--json"));
}

TEST(CommandLine, NamesWhatIsWrong) {
  for (const auto& [words, message] : std::vector<std::pair<Words, const char*>>{
           {{"--nothing"}, "program: '--nothing' is not an option of program\nRun with --help"},
           {{"--count"}, "--count: missing value N"},
           {{"--count", "--json"}, "--count: missing value N"},
           {{"--count", "10"}, "--count: expected a whole number from 0 to 9, not '10'"},
           {{"--size", "-1"}, "--size: expected a whole number from 1 to 9, not '-1'"},
           {{"--ratio", "3"}, "--ratio: expected a number from 0.5 to 2, not '3'"},
           {{"--ratio", "nan"}, "--ratio: expected a number from 0.5 to 2, not 'nan'"},
           {{"--rate", "0"}, "--rate: expected a number above 0, not '0'"},
           {{"--wait", "86401"}, "--wait: expected a whole number from 1 to 86400"},
           {{"--memory", "much"}, "--memory: expected a number of bytes"},
           {{"--colour", "blue"}, "--colour: expected red or green, not 'blue'"},
           {{"--json=yes"}, "--json: takes no value"},
           {{"one", "two"}, "unexpected argument 'two'"},
           {{"--", "--json", "--json"}, "unexpected argument '--json'"}})
    EXPECT_THAT(Program().error(words), HasSubstr(message)) << words.front();
}

TEST(CommandLine, HelpIsMadeOfTheTable) {
  const auto help = Program().line.parse({"--count", "1", "--help", "--nonsense"});
  ASSERT_TRUE(help);
  EXPECT_EQ(help->code, 0);
  EXPECT_THAT(help->out, AllOf(HasSubstr("Usage: program [FIRST] [OPTIONS]\n\nShows what"),
                               HasSubstr("\nArguments:\n  FIRST                   The first argument\n"),
                               HasSubstr("\nOptions:\n  --count N               A whole number [3]\n"),
                               HasSubstr("  --size N                Not given if it is -1\n"),
                               HasSubstr("Seconds [5]\n"), HasSubstr("  --colour red|green      One of [green]\n"),
                               HasSubstr("\nFlags:\n  --json                  On\n"), HasSubstr("--version")));
  EXPECT_EQ(Program().line.parse({"--version"})->out, "program " TROUPE_VERSION "\n");
}

TEST(CommandLine, LongHelpIsWrappedBelowItsColumn) {
  std::string text;
  std::string words = "word";
  for (int i = 0; i < 40; ++i) words += " word";
  const std::string help =
      help_of({text_option("--option", "X", text, words), text_option("--a-very-long-option", "VALUE", text, "short")});
  EXPECT_THAT(help, HasSubstr("\n" + std::string(26, ' ') + "word"));
  EXPECT_THAT(help, HasSubstr("\n  --a-very-long-option VALUE\n" + std::string(26, ' ') + "short\n"));
  EXPECT_THAT(help, Not(HasSubstr(std::string(101, 'x'))));
  for (std::size_t at = 0, end = 0; (end = help.find('\n', at)) != help.npos; at = end + 1)
    EXPECT_LE(end - at, 100u) << help.substr(at, end - at);
}

TEST(CommandLine, KeepsTheCommandOfAnotherProgram) {
  for (const Words& words :
       {Words{"--json", "app", "--json", "--help"}, Words{"--json", "--", "app", "--json", "--help"}}) {
    SCOPED_TRACE(::testing::PrintToString(words));
    CommandLine line("launcher", "APP", "Starts APP.");
    bool json = false;
    Words command;
    line.add("Options", {flag("--json", json, "On")});
    line.end_with_command(command);
    EXPECT_EQ(line.parse(words), std::nullopt);
    EXPECT_TRUE(json);
    EXPECT_THAT(command, ElementsAre("app", "--json", "--help"));
  }
}

TEST(CommandLine, TakesAnyNumberOfArguments) {
  CommandLine line("program", "[CASE...]", "Runs cases.");
  Words cases;
  line.add_arguments({"CASE", "", "", "A case", {}}, cases);
  EXPECT_EQ(line.parse({"a", "--", "--b", "c"}), std::nullopt);
  EXPECT_THAT(cases, ElementsAre("a", "--b", "c"));
}

TEST(CommandLine, OptionsThatExcludeEachOtherAreNamed) {
  Program p;
  EXPECT_EQ(p.line.parse({"--json", "--plain"}), std::nullopt);
  EXPECT_EQ(p.line.conflict({"--json", "--count", "--plain"}), "--json and --plain cannot be combined");
  EXPECT_EQ(p.line.conflict({"--json", "--count"}), std::nullopt);
}

}  // namespace
}  // namespace troupe
