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
  EXPECT_TRUE(has_deep_key(deep + "a = 1"));
  EXPECT_TRUE(has_deep_key("x = {" + deep + "a = 1}"));
  EXPECT_FALSE(has_deep_key("name = \"" + deep + "\"\n[a.b.c]\nx = 1.5")) << "in a text they are dots";
}

}  // namespace
}  // namespace meshwright
