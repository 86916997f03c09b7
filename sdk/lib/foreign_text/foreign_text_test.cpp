#include "foreign_text.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

TEST(ForeignText, JsonStringsEscapeControlBytesAndReplaceWhatIsNoUtf8) {
  EXPECT_EQ(json_string("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
  EXPECT_EQ(json_string(std::string_view("\0x", 2)), "\"\\u0000x\"");
  EXPECT_EQ(json_string("\xc3\xa9"), "\"\xc3\xa9\"");
  EXPECT_EQ(json_string("\xff"), "\"\xef\xbf\xbd\"");
  EXPECT_EQ(json_string("\xc3"), "\"\xef\xbf\xbd\"") << "cut short";
  EXPECT_EQ(json_string("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"") << "overlong";
  EXPECT_EQ(json_string("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"") << "a surrogate";
}

TEST(ForeignText, XmlHasNoTagsAndNoCharacterThatXmlForbids) {
  EXPECT_EQ(xml_text("<a b=\"c\">&'"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
  EXPECT_EQ(xml_text("\x01\xef\xbf\xbe\xff"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(xml_text("a\nb"), "a b");
}

TEST(ForeignText, MessagesStayOnTheirLine) {
  EXPECT_EQ(message_line("a\n\x1b[31m\xe2\x80\xae\xff", 100), "a\\x0a\\x1b[31m\\u202e\\xff");
  EXPECT_EQ(message_line("caf\xc3\xa9", 100), "caf\xc3\xa9");
}

TEST(ForeignText, OfALongMessageTheMiddleIsLeftOut) {
  EXPECT_EQ(message_line("0123456789abcdef", 8), "0123 ... cdef");
  EXPECT_EQ(message_line("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 6), "\xc3\xa9 ... \xc3\xa9") << "no character is cut";
}

TEST(ForeignText, KnowsHowDeepBracketsAre) {
  EXPECT_FALSE(nests_deeper(R"([[1, {"a": [2]}], [3]])", 4));
  EXPECT_TRUE(nests_deeper(R"([[1, {"a": [2]}], [3]])", 3));
  EXPECT_FALSE(nests_deeper(R"(["[[[[\"[[[["])", 1)) << "in a text they are letters";
  EXPECT_TRUE(nests_deeper(std::string(100'000, '['), 500));
}

TEST(ForeignText, KnowsHowDeepAKeyIs) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "a.";
  constexpr std::string_view kDeep = "a key has more than 200 dots";
  EXPECT_EQ(why_not_toml(deep + "a = 1"), kDeep);
  EXPECT_EQ(why_not_toml("x = {" + deep + "a = 1}"), kDeep);
  EXPECT_EQ(why_not_toml("name = \"" + deep + "\"\n[a.b.c]\nx = 1.5"), "") << "in a text they are dots";
  EXPECT_EQ(why_not_toml("name = 'open\n" + deep + "a = 1"), kDeep) << "a text that is not closed ends with its line";
}

TEST(ForeignText, TomlHasOtherLettersInTextsAndCommentsAlone) {
  constexpr std::string_view kStray = "outside of texts and comments stands a character that is not ASCII";
  EXPECT_EQ(why_not_toml("efficiency = 1\nvector_\u041a = 2"), kStray);
  EXPECT_EQ(why_not_toml("a = 1 \u00b7"), kStray);
  EXPECT_EQ(why_not_toml("# \u041a\nname = \"\u041a\" # \u041a\nother = '\u041a'\nlong = \"\"\"\n\u041a \"quoted\"\n\u041a\"\"\"\nx = 1"), "");
  EXPECT_EQ(why_not_toml("a = \"b\\\" \u041a\""), "") << "a quote can be escaped";
  EXPECT_EQ(why_not_toml("a = \"b\" \u041a"), kStray);
}

}  // namespace
}  // namespace meshwright
