// Any cut of a model into stages is right, whatever the layouts inside: random cuts, random strategies for every node of each stage, on meshes that
// differ from stage to stage, and random orders of microbatches, with backwards whole or in two parts.
// MESHWRIGHT_SEED=n draws that one alone; MESHWRIGHT_DRAWS=n draws at most n of each model.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <ostream>
#include <random>

#include "cut_model.h"
#include "meshwright/stages.h"
#include "microbatches.h"
#include "program_bench.h"
#include "sources.h"
#include "verify.h"

namespace meshwright::test {
namespace {

struct StageDraws {
  const char* model;
  int count;
};

void PrintTo(const StageDraws& draws, std::ostream* out) { *out << draws.model; }

constexpr std::int64_t kMicrobatches = 4;
constexpr int kMostTries = 200;  // of cuts, of which some are refused: a router's choice would cross

class Drawing {
 public:
  explicit Drawing(int seed) : random_(static_cast<std::uint64_t>(seed)) {}

  std::int64_t number(std::int64_t least, std::int64_t most) { return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1)); }

  CutModel cut(const Graph& graph, std::uint32_t stages) {
    const std::vector<bool> depends = depends_on_parameters(graph);
    for (int i = 0; i < kMostTries; ++i) {
      std::vector<std::int64_t> ends;
      for (std::uint32_t stage = 1; stage < stages; ++stage) ends.push_back(number(1, std::ssize(graph.nodes) - 1));
      std::ranges::sort(ends);
      std::vector<std::uint32_t> stage_of;
      for (std::int64_t node = 0; node < std::ssize(graph.nodes); ++node) {
        const bool bound = depends[graph.nodes[static_cast<std::size_t>(node)].results.front()];
        stage_of.push_back(bound ? static_cast<std::uint32_t>(std::ranges::upper_bound(ends, node) - ends.begin()) : 0);
      }
      Result<CutModel> made = cut_model(graph, stage_of, stages);
      if (made) return std::move(*made);
      refusals.insert(made.error().message);
    }
    ADD_FAILURE() << "no cut was allowed; one refusal: " << *refusals.begin();
    return {};
  }

  // From the first stage on fewer and fewer forwards go ahead, so that nobody waits for ever. By chance backwards are in two parts, of which the second ones are put off.
  std::vector<std::string> orders(std::uint32_t stages) {
    std::vector<std::string> all;
    std::int64_t ahead = kMicrobatches;
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      ahead = number(1, ahead);
      std::string& text = all.emplace_back();
      const bool parts = number(0, 1) == 0;
      std::int64_t weights = 0;  // second parts so far
      for (std::int64_t i = 0; i < kMicrobatches + ahead; ++i) {
        if (i < kMicrobatches) text += "F" + std::to_string(i) + " ";
        if (i + 1 >= ahead && i + 1 - ahead < kMicrobatches) text += (parts ? "I" : "B") + std::to_string(i + 1 - ahead) + " ";
        for (const std::int64_t begun = std::min(kMicrobatches, i + 2 - ahead); parts && weights < begun && number(0, 1) == 0; ++weights) text += "W" + std::to_string(weights) + " ";
      }
      for (; parts && weights < kMicrobatches; ++weights) text += "W" + std::to_string(weights) + " ";
      text.pop_back();
    }
    return all;
  }

  // Of each stage: its devices, or by chance those of stages before it.
  std::vector<std::uint32_t> groups(std::uint32_t stages) {
    std::vector<std::uint32_t> groups;
    std::uint32_t count = 0;
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      groups.push_back(stage > 0 && number(0, 1) == 0 ? static_cast<std::uint32_t>(number(0, count - 1)) : count);
      count = std::max(count, groups.back() + 1);
    }
    return groups;
  }

  // What each group runs: the orders of its stages, by turns as it comes, where nobody has to wait for ever.
  GroupOrders merged(const std::vector<std::string>& orders, const std::vector<std::uint32_t>& groups) {
    GroupOrders made(1 + *std::ranges::max_element(groups));
    std::vector<std::vector<StepEvent>> left;
    for (const std::string& order : orders) {
      left.push_back(parse_step_order(order, kMicrobatches).value().events());
      left.back().pop_back();  // the update
    }
    std::vector<std::array<std::int64_t, 2>> done(orders.size(), {0, 0});
    const auto last = orders.size() - 1;
    for (;;) {
      std::vector<std::size_t> ready;
      for (std::size_t stage = 0; stage < left.size(); ++stage) {
        if (left[stage].empty()) continue;
        const StepEvent& event = left[stage].front();
        const bool forward = event.phase == Phase::forward, waits_for_nobody = event.phase == Phase::weight_gradient || stage == (forward ? 0 : last);
        if (waits_for_nobody || (forward ? done[stage - 1][0] : done[stage + 1][1]) > event.microbatch) ready.push_back(stage);
      }
      if (ready.empty()) return made;
      const std::size_t stage = ready[static_cast<std::size_t>(number(0, std::ssize(ready) - 1))];
      made[groups[stage]].push_back({static_cast<std::uint32_t>(stage), left[stage].front()});
      if (const Phase phase = left[stage].front().phase; phase != Phase::weight_gradient) ++done[stage][phase == Phase::forward ? 0 : 1];
      left[stage].erase(left[stage].begin());
    }
  }

  std::int64_t devices() { return std::int64_t{1} << number(0, 2); }

  Mesh mesh(std::int64_t devices) {
    if (devices == 1) return plain_mesh({});
    return plain_mesh(devices == 4 && number(0, 1) == 0 ? std::vector<std::int64_t>{2, 2} : std::vector<std::int64_t>{devices});
  }

  std::set<std::string> refusals;

 private:
  std::mt19937_64 random_;
};

class RandomStages : public testing::TestWithParam<StageDraws> {
 protected:
  static void draw(const ModelAnalysis& model, int seed) {
    SCOPED_TRACE(std::string(GetParam().model) + ", seed " + std::to_string(seed));
    const OpTable& ops = *bench().tools.ops;
    const CostProfile profile = plain_profile();
    Drawing drawing(seed);
    const auto stages = static_cast<std::uint32_t>(drawing.number(2, 4));
    const CutModel cut = drawing.cut(*model.graph, stages);
    ASSERT_EQ(cut.graphs.size(), stages);
    const std::vector<std::string> orders = drawing.orders(stages);
    const std::vector<std::uint32_t> groups = drawing.groups(stages);
    std::vector<std::int64_t> devices;  // by group
    for (const std::uint32_t group : groups) {
      if (group == devices.size()) devices.push_back(drawing.devices());
    }
    std::vector<Program> programs;
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      const ModelAnalysis here = analyze_model(cut.graphs[stage], ops).value();
      TrainingSettings training;
      training.microbatches = kMicrobatches;
      training.keep_gradients = seed % 2 == 0;
      training.order = orders[stage];
      const Mesh mesh = drawing.mesh(devices[groups[stage]]);
      const StagePart part = cut.part_of(stage);
      const ProblemInput input{{here, training, ops, profile, *bench().tools.conversions, &part}, mesh, {}};
      const Problem problem = build_problem(input).value();
      const Plan plan = draw_plan(input, problem, static_cast<std::uint64_t>(seed)).value();
      const Result<Program> program = host::make_program(plan, input, bench().tools);
      ASSERT_TRUE(program) << "stage " << stage << ": " << program.error().message;
      programs.push_back(*program);
    }
    std::vector<VerifiedStage> verified;
    for (std::uint32_t stage = 0; stage < stages; ++stage) verified.push_back({cut.graphs[stage], programs[stage]});
    const auto sources = sample_sources(*model.graph, {}, 1).value();
    const auto further = sample_microbatches(*model.graph, {}, kMicrobatches).value();
    const Result<Verification> result =
        verify({*model.graph, programs.front(), ops, profile, nullptr, *bench().reference, sources, 1e-9, 1e-3, further, false, {}, verified, drawing.merged(orders, groups)});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(result->equal) << result->worst_tensor << " on rank " << result->worst_rank << ": " << result->max_relative_error << " " << result->problem;
    EXPECT_EQ(result->bytes_sent_measured, result->bytes_sent_predicted);
    for (const Verification::GroupPeak& peak : result->group_peaks) EXPECT_EQ(peak.measured, peak.predicted);
    EXPECT_EQ(result->group_peaks.size(), devices.size());
  }
};

TEST_P(RandomStages, ComputeWhatOneDeviceComputes) {
  const OpTable& ops = *bench().tools.ops;
  const Result<Graph> part = cut_into_microbatches(read_model(GetParam().model), ops, kMicrobatches, true);
  ASSERT_TRUE(part) << part.error().message;
  const ModelAnalysis model = make_float64_model(*part, ops).value();
  const char* only = std::getenv("MESHWRIGHT_SEED");
  const int first = only != nullptr ? std::atoi(only) : 0, count = only != nullptr ? 1 : at_most_draws(GetParam().count);
  for (int seed = first; seed < first + count; ++seed) draw(model, seed);
}

INSTANTIATE_TEST_SUITE_P(Models, RandomStages,
                         testing::Values(StageDraws{"mlp_tiny", 12}, StageDraws{"gpt2_tiny", 15}, StageDraws{"bert_tiny", 12}, StageDraws{"vit_tiny", 12}, StageDraws{"llama_tiny", 10},
                                         StageDraws{"t5_tiny", 12}, StageDraws{"unet_tiny", 12}, StageDraws{"resnet_tiny", 4}, StageDraws{"mixtral_tiny", 10}, StageDraws{"clip_tiny", 8}),
                         [](const auto& info) { return std::string(info.param.model); });

}  // namespace
}  // namespace meshwright::test
