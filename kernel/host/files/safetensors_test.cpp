#include "files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

namespace meshwright::host {
namespace {

using testing::HasSubstr;

Safetensors some() {
  Safetensors content;
  Tensor& weight = content.tensors.emplace("h.0.weight", Tensor({DType::float32, {2, 3}})).first->second;
  for (std::int64_t i = 0; i < weight.elements(); ++i) weight.set(i, 0.5 * static_cast<double>(i));
  content.tensors.emplace("count", Tensor({DType::int64, {}})).first->second.set(0, 7);
  content.tensors.emplace("none", Tensor({DType::float64, {0, 4}}));
  content.words = {{"format", "test"}, {"steps", "3"}};
  return content;
}

std::string with_header(const std::string& header, std::size_t data_bytes) {
  std::string text;
  for (std::size_t i = 0; i < 8; ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xffU);
  return text + header + std::string(data_bytes, '\1');
}

std::string refusal(const std::string& text) {
  const Result<Safetensors> read = parse_safetensors(text, "FILE");
  return read ? "it was read" : read.error().message;
}

TEST(Safetensors, ReadsWhatItWrote) {
  const std::string text = write_safetensors(some()).value();
  const Safetensors read = parse_safetensors(text, "FILE").value();
  EXPECT_EQ(read.words, some().words);
  ASSERT_EQ(read.tensors.size(), 3U);
  EXPECT_EQ(read.tensors.at("h.0.weight").type(), (TensorType{DType::float32, {2, 3}}));
  EXPECT_EQ(read.tensors.at("h.0.weight").get(5), 2.5);
  EXPECT_EQ(read.tensors.at("count").get(0), 7);
  EXPECT_EQ(read.tensors.at("none").elements(), 0);
  EXPECT_EQ(write_safetensors(read).value(), text);
}

// As the format's own description has it: the header's length, the header, padded to 8 bytes, and the bytes.
TEST(Safetensors, WritesTheFormat) {
  Safetensors content;
  content.tensors.emplace("x", Tensor({DType::uint8, {2}})).first->second.set(1, 9);
  const std::string header = R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(write_safetensors(content).value(), with_header(padded, 0) + std::string("\0\t", 2));
}

TEST(Safetensors, OfAnyLengthThatIsCutOffAreRefused) {
  const std::string text = write_safetensors(some()).value();
  for (std::size_t length = 0; length < text.size(); ++length) EXPECT_FALSE(parse_safetensors(text.substr(0, length), "FILE")) << length;
  EXPECT_THAT(refusal(text.substr(0, 5)), HasSubstr("FILE: is too short"));
  EXPECT_THAT(refusal(text.substr(0, 20)), HasSubstr("FILE: is cut off: its header has "));
  EXPECT_THAT(refusal(text.substr(0, text.size() - 1)), HasSubstr("the file is cut off"));
  EXPECT_THAT(refusal(text + "x"), HasSubstr("FILE: its tensors end at byte 32, and the file at 33"));
}

TEST(Safetensors, ThatCanNotBeAreRefused) {
  const auto one = [](const std::string& entry, std::size_t bytes) { return refusal(with_header("{\"x\":" + entry + "}", bytes)); };
  EXPECT_THAT(refusal("PK\3\4 a zip file, for example"), HasSubstr("FILE: is no file of safetensors"));
  EXPECT_THAT(refusal(with_header("{\"x\":", 0)), HasSubstr("FILE, its header"));
  EXPECT_THAT(refusal(with_header("[]", 0)), HasSubstr("expected an object"));
  EXPECT_THAT(one("{}", 0), HasSubstr("x: the key 'dtype' is missing"));
  EXPECT_THAT(one(R"({"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]})", 1), HasSubstr("x: the dtype 'F8_E4M3' is not known"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4), HasSubstr("-1 is out of range"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4), HasSubstr("float32[2] does not take 4 bytes"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]})", 4), HasSubstr("does not take 4 bytes"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4), HasSubstr("out of range"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 8), HasSubstr("'x' begins at byte 4 of the tensors, where 0 is the next one"));
  EXPECT_THAT(refusal(with_header(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3)), HasSubstr("'y' begins at byte 1"));
  EXPECT_THAT(refusal(with_header(R"({"__metadata__":{"steps":3}})", 0)), HasSubstr("__metadata__.steps: expected"));
}

TEST(Safetensors, CanNotNameEverything) {
  Safetensors content;
  content.tensors.emplace("__metadata__", Tensor({DType::uint8, {1}}));
  EXPECT_THAT(write_safetensors(content).error().message, HasSubstr("no such name"));
  content.tensors.clear();
  content.tensors.emplace("z", Tensor({DType::complex64, {1}}));
  EXPECT_THAT(write_safetensors(content).error().message, HasSubstr("no such dtype"));
}

TEST(Safetensors, OfNoFileAreRefused) {
  EXPECT_THAT(read_safetensors("/nowhere/x.safetensors").error().message, HasSubstr("/nowhere/x.safetensors: no such file"));
  EXPECT_THAT(read_safetensors("/").error().message, HasSubstr("is no regular file"));
}

}  // namespace
}  // namespace meshwright::host
