// Any assignment is right, not only the best one: random strategies for every node of small models, stages of ZeRO
// included, prefetched or not, under several settings of training.
// MESHWRIGHT_SEED=n draws that plan alone, and prints its program; MESHWRIGHT_DRAWS=n draws at most n of each kind.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>

#include "microbatches.h"
#include "program_bench.h"
#include "sources.h"
#include "verify.h"

namespace meshwright::test {
namespace {

struct Draws {
  const char* model;
  std::vector<std::int64_t> mesh;
  int count;
};

// Stands in the names of the tests, which would hold the bytes of pointers otherwise.
void PrintTo(const Draws& draws, std::ostream* out) { *out << draws.model << " on " << to_string(plain_mesh(draws.mesh)); }

// What plan `seed` is trained with.
TrainingSettings settings_of(int seed) {
  TrainingSettings training;
  switch (seed % 5) {
    case 1: training.microbatches = 2; break;
    case 2:
      training.microbatches = 2;
      training.keep_gradients = false;
      break;
    case 3:
      training.microbatches = 4;
      training.optimizer = Optimizer::sgd;
      break;
    case 4: training.optimizer = Optimizer::adam; break;
    default: break;
  }
  return training;
}

constexpr int kSettings = 5;

// Parameters that a plan gathers for each use.
struct Gathered {
  int ahead = 0, late = 0;  // prefetched, and not
};

class RandomPlan : public testing::TestWithParam<Draws> {
 protected:
  // Everything that the settings decide, for the plans that have them in common.
  static void draw(const Graph& graph, const TrainingSettings& training, const std::vector<int>& seeds, bool print,
                   Gathered& gathered) {
    const OpTable& ops = *bench().tools.ops;
    const Mesh mesh = plain_mesh(GetParam().mesh);
    const CostProfile profile = plain_profile();
    const Result<Graph> cut = cut_into_microbatches(graph, ops, training.microbatches, true);
    ASSERT_TRUE(cut) << cut.error().message;
    const ModelAnalysis model = make_float64_model(*cut, ops).value();
    const ProblemInput input{{model, training, ops, profile, *bench().tools.conversions}, mesh, {}};
    const Problem problem = build_problem(input).value();
    const auto sources = sample_sources(*model.graph, {}, 1).value();
    const auto further = sample_microbatches(*model.graph, {}, training.microbatches).value();
    for (const int seed : seeds) {
      SCOPED_TRACE(std::string(GetParam().model) + " on " + to_string(mesh) + ", seed " + std::to_string(seed));
      const Plan plan = draw_plan(input, problem, static_cast<std::uint64_t>(seed)).value();
      const Result<Program> program = host::make_program(plan, bench().tools);
      ASSERT_TRUE(program) << program.error().message;
      for (const ProgramParameter& parameter : program->parameters) {
        if (parameter.zero == ZeroStage::value) ++(parameter.prefetch ? gathered.ahead : gathered.late);
      }
      const Result<Verification> result =
          verify({*model.graph, *program, ops, profile, nullptr, *bench().reference, sources, 1e-9, 1e-3, further});
      ASSERT_TRUE(result) << result.error().message;
      if (print) std::puts(to_string(*program).c_str());
      EXPECT_TRUE(result->equal) << result->worst_tensor << " on rank " << result->worst_rank << ": "
                                 << result->max_relative_error << " " << result->problem;
      EXPECT_EQ(result->bytes_sent_measured, result->bytes_sent_predicted);
      EXPECT_EQ(result->peak_bytes_measured, result->peak_bytes_predicted);
    }
  }
};

TEST_P(RandomPlan, ComputesWhatOneDeviceComputes) {
  const Graph graph = read_model(GetParam().model);
  const char* only = std::getenv("MESHWRIGHT_SEED");
  const int first = only ? std::atoi(only) : 0, count = only ? 1 : at_most_draws(GetParam().count);
  std::printf("seeds %d to %d; MESHWRIGHT_SEED=N runs one and prints its program\n", first, first + count - 1);
  Gathered gathered;
  for (int setting = 0; setting < kSettings; ++setting) {
    std::vector<int> seeds;
    for (int seed = first; seed < first + count; ++seed) {
      if (seed % kSettings == setting) seeds.push_back(seed);
    }
    if (!seeds.empty()) draw(graph, settings_of(setting), seeds, only != nullptr, gathered);
  }
  if (count < GetParam().count) return;
  EXPECT_GT(gathered.ahead, 0);
  EXPECT_GT(gathered.late, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, RandomPlan,
                         testing::Values(Draws{"mlp_tiny", {4}, 35}, Draws{"mlp_tiny", {2, 2}, 35},
                                         Draws{"mlp_tiny", {2, 4}, 35}, Draws{"mlp_tiny", {2, 2, 2}, 35},
                                         Draws{"gpt2_tiny", {4}, 35}, Draws{"gpt2_tiny", {2, 2}, 35},
                                         Draws{"gpt2_tiny", {2, 4}, 35}, Draws{"gpt2_tiny", {2, 2, 2}, 35},
                                         Draws{"bert_tiny", {4}, 35}, Draws{"bert_tiny", {2, 2}, 35},
                                         Draws{"bert_tiny", {2, 4}, 35}, Draws{"bert_tiny", {2, 2, 2}, 35},
                                         Draws{"vit_tiny", {4}, 35}, Draws{"vit_tiny", {2, 2}, 35},
                                         Draws{"vit_tiny", {2, 4}, 35}, Draws{"vit_tiny", {2, 2, 2}, 35},
                                         Draws{"llama_tiny", {2, 2}, 5}, Draws{"llama_tiny", {2, 2, 2}, 5},
                                         Draws{"resnet_tiny", {2, 2}, 5}, Draws{"resnet_tiny", {2, 2, 2}, 5},
                                         Draws{"t5_tiny", {2, 2}, 5}, Draws{"t5_tiny", {2, 2, 2}, 5},
                                         Draws{"vgg_tiny", {2, 2}, 5}, Draws{"vgg_tiny", {2, 2, 2}, 5},
                                         Draws{"clip_tiny", {2, 2}, 5}, Draws{"clip_tiny", {2, 2, 2}, 5},
                                         Draws{"unet_tiny", {2, 2}, 5}, Draws{"densenet_tiny", {2, 2}, 5},
                                         Draws{"swin_tiny", {2, 2}, 5}, Draws{"swin_tiny", {2, 2, 2}, 5},
                                         Draws{"mixtral_tiny", {2, 2}, 5}, Draws{"mixtral_tiny", {2, 2, 2}, 5},
                                         Draws{"qwen_moe_tiny", {2, 2}, 5}, Draws{"qwen_moe_tiny", {2, 2, 2}, 5}),
                         [](const auto& info) {
                           std::string name = info.param.model;
                           for (const std::int64_t size : info.param.mesh) name += "_" + std::to_string(size);
                           return name;
                         });

}  // namespace
}  // namespace meshwright::test
