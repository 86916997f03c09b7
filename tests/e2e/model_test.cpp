// What atoms and rules make of real models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "meshwright/atoms.h"
#include "meshwright/conversion.h"
#include "meshwright/frontend.h"
#include "meshwright/strategy.h"
#include "meshwright/training_graph.h"
#include "planning.h"

namespace meshwright {
namespace {

using test::example;

struct Model {
  ModelAnalysis analysis;
  const Graph& graph = *analysis.graph;
  const AtomizedGraph& atoms = *analysis.atoms;

  explicit Model(ModelAnalysis of) : analysis(std::move(of)) {}
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  [[nodiscard]] ValueId parameter(const std::string& name) const {
    for (const Source& source : graph.sources) {
      if (source.kind != SourceKind::parameter) continue;
      for (const std::string& known : source.names) {
        if (known == name) return source.value;
      }
    }
    ADD_FAILURE() << "no parameter " << name;
    return 0;
  }
  // "[768][3 12 64]"
  [[nodiscard]] std::string atoms_of(ValueId value) const {
    const AtomShape& shape = atoms.values[value];
    std::string text;
    std::size_t atom = 0;
    for (const std::uint8_t count : shape.atoms_of_dimension) {
      text += '[';
      for (std::uint8_t i = 0; i < count; ++i, ++atom) {
        text += (i > 0 ? " " : "") + std::to_string(shape.sizes[atom]) + (shape.paddable[atom] ? "~" : "");
      }
      text += ']';
    }
    return text;
  }
};

Model load_file(const std::string& path) {
  host::PluginHost host = test::open_host();
  const auto frontend = host.create<Frontend>("frontend", "torch_export").value();
  return Model(analyze_model(frontend->read(path).value(), *host.op_table().value()).value());
}

Model load(const std::string& name) { return load_file(example(name)); }

TEST(Examples, HaveARuleForEveryOp) {
  for (const std::string& name : test::examples()) {
    const Model model = load(name);
    EXPECT_THAT(model.atoms.warnings, testing::IsEmpty()) << name;
    EXPECT_TRUE(validate(model.graph).ok()) << name;
  }
}

TEST(Examples, HaveAGradientForEveryParameter) {
  host::PluginHost host = test::open_host();
  const std::unique_ptr<OpTable> ops = host.op_table().value();
  for (const std::string& name : test::examples()) {
    const Graph graph = load(name).graph;
    const Result<TrainingGraph> training = differentiate(graph, *ops);
    ASSERT_TRUE(training.ok()) << name << ": " << training.error().message;
    for (const Source& source : graph.sources) {
      if (source.kind != SourceKind::parameter) continue;
      const ValueId gradient = training->gradients[source.value];
      ASSERT_NE(gradient, kNoId) << name << ": " << source.names[0];
      EXPECT_EQ(training->graph.type(gradient), graph.type(source.value)) << name << ": " << source.names[0];
    }
    // The backward has rules too, so that it can be sharded.
    EXPECT_THAT(atomize(training->graph, *ops).value().warnings, testing::IsEmpty()) << name;
  }
}

TEST(Gpt2, FusedQkvIsCutIntoPiecesHeadsAndColumns) {
  const Model model = load("gpt2_small");
  EXPECT_EQ(model.atoms_of(model.parameter("inner.transformer.h.3.attn.c_attn.weight")), "[768][3 12 64]");
  EXPECT_EQ(model.atoms_of(model.parameter("inner.transformer.h.3.attn.c_attn.bias")), "[3 12 64]");
  EXPECT_EQ(model.atoms_of(model.parameter("inner.transformer.h.3.attn.c_proj.weight")), "[12 64][768]");
  EXPECT_EQ(model.atoms_of(model.parameter("inner.transformer.h.3.mlp.c_fc.weight")), "[768][3072]");
}

TEST(Gpt2, RowsOfTablesMayBePaddedAndNothingElse) {
  const Model model = load("gpt2_small");
  const ValueId positions = model.parameter("inner.transformer.wpe.weight");
  EXPECT_EQ(model.atoms_of(positions), "[1024~][768]");
  EXPECT_EQ(model.atoms_of(model.parameter("inner.lm_head.weight")), "[50257~][768]");
  for (ValueId value = 0; value < model.graph.values.size(); ++value) {
    const AtomShape& shape = model.atoms.values[value];
    if (value == positions) continue;
    for (std::size_t atom = 0; atom < shape.sizes.size(); ++atom) {
      EXPECT_EQ(shape.paddable[atom], shape.sizes[atom] == 50257) << model.graph.values[value].name;
    }
  }
}

TEST(Vit, PositionsAreNeverPadded) {  // attention looks at all of them
  const Model model = load("vit_base");
  EXPECT_EQ(model.atoms_of(model.parameter("inner.vit.embeddings.position_embeddings")), "[][197][768]");
}

TEST(Gpt2, TiedWeightsAreOneParameter) {
  const Model model = load("gpt2_small");
  EXPECT_EQ(model.parameter("inner.lm_head.weight"), model.parameter("inner.transformer.wte.weight"));
  std::int64_t elements = 0;
  for (const Source& source : model.graph.sources) {
    if (source.kind == SourceKind::parameter) elements += model.graph.type(source.value).elements();
  }
  EXPECT_EQ(elements, 124'439'808);  // GPT-2 small
}

// On two axes of 2 and 4, or on the one given.
class Problems : public testing::Test {
 protected:
  Problems() {
    mesh_.axes = {{2, 1e-6, 1e-10, "a"}, {4, 1e-6, 1e-10, "b"}};
    profile_.device.memory_bytes_per_second = profile_.device.vector_flops_per_second = 1e12;
  }

  Problem build(const Model& model, const StrategyFilter& filter = {}) const {
    return build_problem({{model.analysis, training_, *ops_, profile_, *conversions_}, mesh_, filter}).value();
  }

  Mesh mesh_;

 private:
  CostProfile profile_;
  const TrainingSettings training_;
  host::PluginHost host_ = test::open_host();
  const std::unique_ptr<OpTable> ops_ = host_.op_table().value();
  const std::shared_ptr<ConversionSearch> conversions_ = host_.create<ConversionSearch>("conversions", "shortest_path").value();
};

TEST_F(Problems, HaveTheDifferentiablePartOfTheGraphWithForks) {
  const Model model = load("gpt2_small");
  const Problem problem = build(model);
  EXPECT_TRUE(validate(problem.space).ok());
  std::size_t forks = 0, most = 0;
  std::set<std::string> names;
  for (const Variable& variable : problem.variables) {
    forks += variable.kind == VariableKind::fork;
    most = std::max(most, variable.set->strategies.size());
    names.insert(variable.name);
  }
  // In each of 12 layers the residual stream is used twice on the way in and on the way out, and the MLP's hidden
  // values three times; one more for the tied embedding.
  EXPECT_EQ(forks, 12U * 3 + 1);
  EXPECT_LE(most, 64U);
  EXPECT_TRUE(names.contains("scaled_dot_product_attention"));
  EXPECT_FALSE(names.contains("expand_2"));  // the mask is copied for each use, not chosen
}

TEST_F(Problems, WorkDividesByTheShardsAndParametersAreCountedOnce) {
  mesh_.axes = {{8, 1e-6, 1e-10, "a"}};
  const Model model = load("gpt2_small");
  const Problem problem = build(model, {.batch_axes = 1, .zero = ZeroStage::none});
  std::int64_t state = 0;
  for (const Variable& variable : problem.variables) {
    // Data parallelism alone: one way to do each op.
    if (variable.kind == VariableKind::parameter) {
      ASSERT_EQ(variable.set->strategies.size(), 1U) << variable.name;
      state += variable.set->strategies[0].resident_bytes();
    }
    if (variable.name == "addmm_22") {  // 8192 x 768 x 3072 on 8 devices
      ASSERT_EQ(variable.set->strategies.size(), 1U);
      EXPECT_EQ(to_string(variable.set->strategies[0].operand(1).value, model.atoms.values[model.graph.nodes[variable.node].operands[1].value]), "[S0 R]R");
      const double bytes = (1024.0 * 768 + 768 * 3072 + 1024.0 * 3072 + 3072) * 4;
      EXPECT_NEAR(variable.set->strategies[0].forward_seconds, 2.0 * 1024 * 768 * 3072 / 1e12 + bytes / 1e12, 1e-12);
      // Two products, and the sum over rows that is the bias' gradient.
      EXPECT_NEAR(variable.set->strategies[0].backward_seconds, 4.0 * 1024 * 768 * 3072 / 1e12 + 2 * (bytes - 3072 * 4) / 1e12 + (1024 + 1) * 3072 * 4 / 1e12, 1e-12);
    }
  }
  EXPECT_EQ(state, 124'439'808 * 16);  // value, gradient and two moments in fp32
}

TEST_F(Problems, LayersThatMakeTheirOwnPositionsShareStrategies) {
  const Model model = load_file(SOURCE_FOLDER "/tests/models/llama_tiny.pt2");
  const Problem problem = build(model);
  std::map<char, std::vector<std::uint32_t>> sets;  // of attention, by layer
  for (const Variable& variable : problem.variables) {
    if (variable.kind != VariableKind::node) continue;
    const std::string& module = model.graph.nodes[variable.node].module_path;
    const std::size_t at = module.find("layers.");
    if (at != std::string::npos && module.find("self_attn") != std::string::npos) sets[module[at + 7]].push_back(variable.set->id);
  }
  ASSERT_EQ(sets.size(), 2U);
  EXPECT_GT(sets['0'].size(), 10U);
  EXPECT_EQ(sets['0'], sets['1']);
  EXPECT_LT(problem.space.tables.size(), problem.space.edges.size() * 2 / 3);
}

}  // namespace
}  // namespace meshwright
