#include "files/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace meshwright::host {
namespace {

TEST(Json, KeepsTheOrderOfKeysAndTheShortestNumbers) {
  Json json;
  json.add("z", 0.1).add("a", std::int64_t{1} << 60).add("text", "x").add("none", nullptr).add("yes", true);
  json.add("list", Json().push(1).push(2.0));
  EXPECT_EQ(write_json(json, true),
            "{\"z\":0.1,\"a\":1152921504606846976,\"text\":\"x\",\"none\":null,\"yes\":true,\"list\":[1,2.0]}\n");
}

TEST(Json, WritesWhatHasNoFormAsSomethingThatHas) {
  EXPECT_EQ(write_json(std::numeric_limits<double>::infinity(), true), "null\n");
  EXPECT_EQ(write_json(Json("\xff"), true), "\"\xEF\xBF\xBD\"\n");
  EXPECT_EQ(write_json(Json(Json::Object{}), true), "{}\n");
  EXPECT_EQ(write_json(Json(Json::Array{}), true), "[]\n");
}

TEST(Json, ReadsWhatItWrote) {
  const std::string text = "{\"b\":[1,2.5,\"x\",null,true,{\"c\":{}}],\"a\":-3}\n";
  const Result<Json> json = parse_json(text, "plan.json");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(write_json(*json, true), text);
  ASSERT_NE(json->find("a"), nullptr);
  EXPECT_EQ(std::get<std::int64_t>(json->find("a")->value()), -3);
  EXPECT_EQ(json->find("x"), nullptr);
}

TEST(Json, NamesTheFileThatIsNoJson) {
  const Result<Json> json = parse_json("{\"a\": ", "plan.json");
  ASSERT_FALSE(json.ok());
  EXPECT_EQ(json.error().message.substr(0, 27), "plan.json: not valid JSON: ");
  EXPECT_EQ(json.error().code, ErrorCode::bad_input);
}

TEST(Json, RefusesWhatIsNestedTooDeep) {
  const std::size_t deep = 1000000;
  const Result<Json> json = parse_json(std::string(deep, '[') + std::string(deep, ']'), "plan.json");
  ASSERT_FALSE(json.ok());
  EXPECT_EQ(json.error().message, "plan.json: nested more than 500 deep");
}

}  // namespace
}  // namespace meshwright::host
