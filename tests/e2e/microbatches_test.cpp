// What may be cut into microbatches: models whose samples do not meet before the loss.
#include "microbatches.h"

#include <gmock/gmock.h>

#include "draft.h"
#include "meshwright/frontend.h"
#include "planned_program.h"

namespace meshwright::test {
namespace {

using testing::HasSubstr;

const OpTable& ops() {
  static host::PluginHost host = open_host();
  static const std::unique_ptr<OpTable> table = host.op_table().value();
  return *table;
}

Graph read(const std::string& name) {
  static host::PluginHost host = open_host();
  Graph graph = host.create<Frontend>("frontend", "torch_export").value()->read(tiny(name)).value();
  drop_dead_nodes(graph);
  EXPECT_TRUE(gather_composites(graph, ops()));
  return graph;
}

class NotCoupled : public testing::TestWithParam<const char*> {};

TEST_P(NotCoupled, IsCut) {
  const Graph graph = read(GetParam());
  const Result<Graph> half = cut_into_microbatches(graph, ops(), 2, false);
  ASSERT_TRUE(half) << half.error().message;
  const ValueId input = std::find_if(graph.sources.begin(), graph.sources.end(), [](const Source& source) {
                          return source.kind == SourceKind::user_input;
                        })->value;
  EXPECT_EQ(2 * half->type(input).shape[0], graph.type(input).shape[0]);
  EXPECT_EQ(cut_into_microbatches(graph, ops(), 1, false).value(), graph);
}

INSTANTIATE_TEST_SUITE_P(Models, NotCoupled, testing::Values("mlp_tiny", "gpt2_tiny", "bert_tiny", "vit_tiny", "llama_tiny", "t5_tiny", "swin_tiny",
                                                             "vgg_tiny", "mixtral_tiny", "qwen_moe_tiny", "vit_torchvision_tiny"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Microbatches, RefuseABatchThatDoesNotDivide) {
  const Result<Graph> cut = cut_into_microbatches(read("gpt2_tiny"), ops(), 3, false);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::bad_input);
  EXPECT_EQ(cut.error().message, "a batch of 8 can't be cut into 3 microbatches; it can be into 1, 2, 4, 8");
}

TEST(Microbatches, RefuseBatchNormByNameUnlessAllowed) {
  const Graph graph = read("resnet_tiny");
  const Result<Graph> refused = cut_into_microbatches(graph, ops(), 2, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::bad_input);
  EXPECT_THAT(refused.error().message, HasSubstr("aten._native_batch_norm_legit_functional at '_native_batch_norm_legit_functional'"));
  EXPECT_THAT(refused.error().message, HasSubstr("batch_coupling = \"allow\" in [train]"));
  EXPECT_TRUE(cut_into_microbatches(graph, ops(), 2, true));
}

TEST(Microbatches, RefuseAContrastiveLossUnlessAllowed) {
  const Graph graph = read("clip_tiny");
  const Result<Graph> refused = cut_into_microbatches(graph, ops(), 2, false);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("mixes the samples of a batch"));
  EXPECT_TRUE(cut_into_microbatches(graph, ops(), 2, true));
}

// --- ops by themselves: hidden = x w, then one op between it and a loss that averages ---

struct Sample : Draft {
  ValueId x = input("x", DType::float32, {8, 16});
  ValueId hidden = op("aten.matmul", {{"self", x}, {"other", parameter("w", {16, 4})}}, {}, {8, 4});

  Result<Graph> cut(ValueId last) {
    const ValueId loss = op("aten.mean", {{"self", last}}, {}, {});
    return cut_into_microbatches(finish("sample", loss), ops(), 2, false);
  }
};

void expect_refused(const Result<Graph>& cut, const std::string& op) {
  ASSERT_FALSE(cut) << op;
  EXPECT_THAT(cut.error().message, HasSubstr(op + " at "));
}

TEST(Coupling, IsNotInWhatWorksOnEachSample) {
  Sample sample;
  const ValueId softmax = sample.op("aten.softmax.int", {{"self", sample.hidden}}, {{"dim", std::int64_t{1}}}, {8, 4});
  const Result<Graph> cut = sample.cut(softmax);
  EXPECT_TRUE(cut) << cut.error().message;
}

TEST(Coupling, IsInAProductOfSamples) {
  Sample sample;
  const ValueId turned = sample.op("aten.transpose.int", {{"self", sample.hidden}}, {{"dim0", std::int64_t{0}}, {"dim1", std::int64_t{1}}}, {4, 8});
  expect_refused(sample.cut(sample.op("aten.matmul", {{"self", sample.hidden}, {"other", turned}}, {}, {8, 8})), "aten.matmul");
}

TEST(Coupling, IsInAMeanOverSamplesThatIsNoLoss) {
  Sample sample;
  const ValueId mean = sample.op("aten.mean.dim", {{"self", sample.hidden}}, {{"dim", std::vector<std::int64_t>{0}}, {"keepdim", true}}, {1, 4});
  expect_refused(sample.cut(sample.op("aten.sub.Tensor", {{"self", sample.hidden}, {"other", mean}}, {}, {8, 4})), "aten.mean.dim");
}

TEST(Coupling, IsInASoftmaxOverSamples) {
  Sample sample;
  expect_refused(sample.cut(sample.op("aten.softmax.int", {{"self", sample.hidden}}, {{"dim", std::int64_t{0}}}, {8, 4})), "aten.softmax.int");
}

}  // namespace
}  // namespace meshwright::test
