#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include <troupe/graph/formats/text_call.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::testing {
namespace {

std::string again(const char* text) { return to_string(parse_call(text)); }
std::string refused(std::string_view text) {
  return error_of([&] { parse_call(text); }).to_string();
}

TEST(TextCall, IsReadAndWritten) {
  EXPECT_EQ(again("adam"), "adam");
  EXPECT_EQ(again(" adam ( ) "), "adam");
  EXPECT_EQ(
      again("f(a=1,b=-2.50, c=1e-7,d=true ,e=false, f=\"x \\\"y\\\" \\\\ \\n\\t\", g=[], h=[1, 2.5,\n[g(x=1)]], i=k)"),
      "f(a=1, b=-2.5, c=1e-07, d=true, e=false, f=\"x \\\"y\\\" \\\\ \\n\\t\", g=[], h=[1, 2.5, [g(x=1)]], i=k)");
  EXPECT_EQ(again("f(a=9223372036854775807, b=-9223372036854775808, c=0.30000000000000004, d=5e-324)"),
            "f(a=9223372036854775807, b=-9223372036854775808, c=0.30000000000000004, d=5e-324)");
}

TEST(TextCall, OtherTextIsRefusedWithItsColumn) {
  EXPECT_EQ(refused(""), "invalid_argument: column 1: expected a name, found the end");
  EXPECT_EQ(refused("3"), "invalid_argument: column 1: expected a name, found '3'");
  EXPECT_EQ(refused("f(a)"), "invalid_argument: column 4: expected '=' and the value of a, found ')'");
  EXPECT_EQ(refused("f(a=1"), "invalid_argument: column 6: expected ',' or ')', found the end");
  EXPECT_EQ(refused("f(a=1,)"), "invalid_argument: column 7: expected a name, found ')'");
  EXPECT_EQ(refused("f(a=1)x"), "invalid_argument: column 7: expected the end, found 'x'");
  EXPECT_EQ(refused("f(a=1, a=2)"), "invalid_argument: column 7: f has 'a' twice");
  EXPECT_EQ(refused("f(a=)"), "invalid_argument: column 5: expected a value, found ')'");
  EXPECT_EQ(refused("f(a=1.5.2)"), "invalid_argument: column 5: expected a value, found '1.5.2)'");
  EXPECT_EQ(refused("f(a=-inf)"), "invalid_argument: column 5: expected a value, found '-inf)'");
  EXPECT_EQ(refused("f(a=1e999)"), "invalid_argument: column 5: expected a value, found '1e999)'");
  EXPECT_EQ(refused("f(a=99999999999999999999)"),
            "invalid_argument: column 5: expected an integer of 64 bits, found '9999999999999999'");
  EXPECT_EQ(refused("f(a=\"x)"), "invalid_argument: column 8: expected '\"', found the end");
  EXPECT_EQ(refused("f(a=\"\\x\")"), "invalid_argument: column 7: expected one of \\\" \\\\ \\n \\t, found 'x\")'");
  EXPECT_EQ(refused("f(a=[1 2])"), "invalid_argument: column 8: expected ',' or ']', found '2])'");
  std::string deep = "f", lists = "f(a=";
  for (int i = 0; i < 100'000; ++i) deep += "(a=g", lists += "[";
  EXPECT_EQ(refused(deep), "invalid_argument: the text nests deeper than 16");
  EXPECT_EQ(refused(lists), "invalid_argument: the text nests deeper than 16");
}

TEST(TextCall, ArgumentsAreTakenByTheirType) {
  const TextCall call = parse_call("f(whole=3, real=0.5, list=[1, 2.5], words=[\"a\"], on=true)");
  TextArguments arguments(call);
  double real = 0, number = 0, kept = 7;
  std::int64_t whole = 0;
  bool on = false;
  std::vector<double> list;
  std::vector<std::string> words;
  arguments.take("whole", whole);
  arguments.take("whole", number);
  arguments.take("real", real);
  arguments.take("list", list);
  arguments.take("words", words);
  arguments.take("absent", kept);
  EXPECT_EQ(error_of([&] { arguments.end(); }).message(), "f has no option 'on'");
  arguments.take("on", on);
  arguments.end();
  EXPECT_EQ(whole, 3);
  EXPECT_EQ(number, 3);
  EXPECT_EQ(real, 0.5);
  EXPECT_EQ(list, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(words, std::vector<std::string>{"a"});
  EXPECT_EQ(kept, 7);
  EXPECT_TRUE(on);
  EXPECT_EQ(error_of([&] { arguments.take("real", whole); }).message(), "f: real must be an integer, not 0.5");
  EXPECT_EQ(error_of([&] { arguments.take("list", words); }).message(),
            "f: list must be a list of texts, not [1, 2.5]");
  EXPECT_EQ(error_of([&] { arguments.take("words", on); }).message(), "f: words must be true or false, not [\"a\"]");
}

}  // namespace
}  // namespace troupe::testing
