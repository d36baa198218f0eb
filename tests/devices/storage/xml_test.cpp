#include "troupe/devices/storage/remote/xml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/error_of.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::vector<std::pair<std::string, std::string>> leaves_of(std::string_view xml) {
  std::vector<std::pair<std::string, std::string>> out;
  read_xml(xml, [&](std::string_view path, const std::string& text) { out.emplace_back(path, text); });
  return out;
}

TEST(Xml, LeavesComeInOrderWithTheirPaths) {
  EXPECT_THAT(leaves_of("<?xml version=\"1.0\"?>\n<List xmlns='http://x/'>\n <Key a=\"1\" b = '>' >one</Key>\n"
                        " <In><Key>two</Key><None/><Blank></Blank></In>\n</List >\n"),
              ElementsAre(Pair("List/Key", "one"), Pair("List/In/Key", "two"), Pair("List/In/None", ""),
                          Pair("List/In/Blank", "")));
  EXPECT_THAT(leaves_of("<A/>"), ElementsAre(Pair("A", "")));
}

TEST(Xml, ReferencesAreCharacters) {
  EXPECT_THAT(leaves_of("<A>&lt;&amp;&gt;&quot;&apos;&#65;&#x42;&#xe9;&#x20AC;&#x1F600;</A>"),
              ElementsAre(Pair("A", "<&>\"'AB\u00e9\u20ac\U0001F600")));
  for (const char* const reference :
       {"&nbsp;", "&#0;", "&#xD800;", "&#x110000;", "&#;", "&#x;", "&#9x;", "&;", "&amp", "&#99999999999;"})
    EXPECT_EQ(error_of([&] { leaves_of(std::string("<A>") + reference + "</A>"); }).code(), Code::data_loss)
        << reference;
}

TEST(Xml, OtherTextIsAnErrorThatNamesTheByte) {
  for (const char* const xml : {"", "A", "<", "<A", "<A>", "<A>b", "<A></B>", "<A></AB>", "<A></A", "<A/><B/>", "<A/>b",
                                "<A b></A>", "<A b=c/>", "<A b='c/>", "<?xml", "<!DOCTYPE a [<!ENTITY b 'c'>]><A/>",
                                "<A><!-- b --></A>", "<A><![CDATA[b]]></A>", "</A>"})
    EXPECT_EQ(error_of([&] { leaves_of(xml); }).code(), Code::data_loss) << xml;
  EXPECT_EQ(error_of([] { leaves_of("<A><B></C></A>"); }).message(), "XML: expected 'B' at byte 8 of 14");
}

TEST(Xml, ElementsAreNotTooDeep) {
  std::string deep, end;
  for (int i = 0; i < 16; ++i) deep += "<A>", end += "</A>";
  EXPECT_EQ(leaves_of(deep + end).size(), 1u);
  EXPECT_THAT(error_of([&] { leaves_of("<A>" + deep + end + "</A>"); }).message(), HasSubstr("at most 16"));
}

}  // namespace
}  // namespace troupe::testing
