// Open dimensions, and the sizes that they are given.
#include "bind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "torch_export.h"

namespace meshwright::torch_export {
namespace {

TEST(Evaluate, ReadsWhatSympyWrites) {
  const std::map<std::string, std::int64_t> sizes = {{"s0", 7}, {"s17", 12}};
  const auto value = [&](std::string_view text) { return evaluate(text, sizes); };
  EXPECT_EQ(value("s17"), 12);
  EXPECT_EQ(value("Mul(Integer(2), s17)"), 24);
  EXPECT_EQ(value("Add(Integer(-1), Mul(Integer(4), s0))"), 27);
  EXPECT_EQ(value("FloorDiv(s17, Integer(5))"), 2);
  EXPECT_EQ(value("Pow(s0, Integer(2))"), 49);
  EXPECT_EQ(value("Max(s0, s17)"), 12);
  EXPECT_EQ(value("2*s0 + s17 // 5 - 1"), 15);
  EXPECT_EQ(value("-(s0 - 9) ** 2"), -4);
  EXPECT_EQ(value("(0 - s0) // 2"), -4);
  EXPECT_EQ(value("(0 - s0) % 4"), 1);
}

TEST(Evaluate, GivesNothingForTheRest) {
  const std::map<std::string, std::int64_t> sizes = {{"s0", 7}};
  for (const char* text : {"", "u0", "s0 +", "Mul(s0", "Foo(s0)", "s0 // 0", "9223372036854775807 + s0", "1.5*s0",
                           "s0)", "Pow(s0, s0*s0)"}) {
    EXPECT_EQ(evaluate(text, sizes), std::nullopt) << text;
  }
  EXPECT_EQ(evaluate(std::string(100'000, '('), sizes), std::nullopt);
  EXPECT_EQ(evaluate(std::string(100'000, '-'), sizes), std::nullopt);
}

const std::string kOpen = std::string(TEST_MODELS) + "/encoder_open.pt2";

// The names of symbols are torch's own.
std::string name_of_length() {
  const Result<Graph> graph = make_torch_export()->read(kOpen, {std::nullopt, {{"nobody", 1}}});
  const std::string& message = graph.error().message;
  const std::size_t place = message.find("' (dimension 1 of input 'inputs')"), quote = message.rfind('\'', place - 1);
  return message.substr(quote + 1, place - quote - 1);
}

TEST(OpenDimensions, AreWhatAnExportOfThatSizeHas) {
  const Graph bound = make_torch_export()->read(kOpen, {12, {{name_of_length(), 10}}}).value();
  const Graph exported = make_torch_export()->read(std::string(TEST_MODELS) + "/encoder_12x10.pt2").value();
  ASSERT_EQ(bound.nodes.size(), exported.nodes.size());
  for (std::size_t i = 0; i < bound.nodes.size(); ++i) {
    EXPECT_EQ(bound.nodes[i].op, exported.nodes[i].op);
    EXPECT_TRUE(bound.nodes[i].attributes == exported.nodes[i].attributes)
        << bound.nodes[i].op << " '" << bound.nodes[i].name << "'";
    for (std::size_t r = 0; r < bound.nodes[i].results.size(); ++r) {
      EXPECT_EQ(to_string(bound.type(bound.nodes[i].results[r])),
                to_string(exported.type(exported.nodes[i].results[r])));
    }
  }
}

TEST(OpenDimensions, AreAsExportedIfNobodySays) {
  const Graph graph = make_torch_export()->read(kOpen).value();
  for (const Source& source : graph.sources) {
    if (source.kind != SourceKind::user_input) continue;
    EXPECT_EQ(to_string(graph.type(source.value)), "int64[8, 16]");
  }
}

// Other versions of torch write the same model in their own way, and decompose it a little differently.
TEST(OpenDimensions, AreReadFromWhatOtherVersionsWrite) {
  const auto tensors = [](const Graph& graph) {
    std::map<std::string, std::string> types;
    for (const Source& source : graph.sources)
      types[source.names.empty() ? graph.values[source.value].name : source.names[0]] =
          to_string(graph.type(source.value));
    return types;
  };
  const auto expected = tensors(make_torch_export()->read(kOpen, {12, {}}).value());
  for (const char* version : {"2_6", "2_8", "2_10"}) {
    const Result<Graph> graph =
        make_torch_export()->read(std::string(TEST_MODELS) + "/encoder_torch_" + version + ".pt2", {12, {}});
    ASSERT_TRUE(graph) << graph.error().message;
    EXPECT_EQ(tensors(*graph), expected) << version;
    EXPECT_EQ(graph->outputs.at(0).kind, OutputKind::loss) << version;
  }
}

TEST(OpenDimensions, RefusesSizesThatTheExportForbids) {
  const Result<Graph> graph = make_torch_export()->read(kOpen, {1000, {}});
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().message,
              testing::HasSubstr("dimension 0 of input 'inputs' can't be 1000: the export allows sizes from 2 to 512"));
}

TEST(OpenDimensions, NamesTheDimensionsThereAre) {
  const Result<Graph> graph = make_torch_export()->read(kOpen, {std::nullopt, {{"length", 10}}});
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().message, testing::HasSubstr("no open dimension is called 'length'; there are '"));
  const Result<Graph> fixed =
      make_torch_export()->read(std::string(TEST_MODELS) + "/mlp_tiny.pt2", {std::nullopt, {{"length", 10}}});
  ASSERT_FALSE(fixed);
  EXPECT_THAT(fixed.error().message, testing::HasSubstr("every dimension of the file's inputs has a fixed size"));
}

}  // namespace
}  // namespace meshwright::torch_export
