// Microbatches in any order compute what one device computes, with the peak of their order; and what repeats is looked at once.
#include <algorithm>

#include "meshwright/timeline.h"
#include "planned_program.h"

namespace meshwright::test {
namespace {

using Settings = std::vector<std::string>;

// So many forwards ahead of the backwards: none is the order that is there by default.
std::string ahead(std::int64_t microbatches, std::int64_t forwards) {
  std::string text;
  for (std::int64_t i = 0; i < microbatches + forwards; ++i) {
    if (i < microbatches) text += (text.empty() ? "F" : " F") + std::to_string(i);
    if (i >= forwards) text += " B" + std::to_string(i - forwards);
  }
  return text;
}

Settings in_order(std::int64_t microbatches, std::int64_t forwards, Settings more) {
  more.push_back("train.microbatches=" + std::to_string(microbatches));
  if (forwards > 0) more.push_back("train.order=" + ahead(microbatches, forwards));
  return more;
}

PlannedProgram planned(const std::string& model, const std::string& mesh, const Settings& settings) {
  Result<PlannedProgram> made = planned_program(model, mesh, settings);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

struct Trial {
  const char* model;
  Settings settings;
};

class OrderOfStep : public testing::TestWithParam<Trial> {};

TEST_P(OrderOfStep, VerifiesWithItsOwnPeak) {
  std::int64_t before = 0;
  for (const std::int64_t forwards : {0, 1, 4}) {
    const Settings settings = in_order(4, forwards, GetParam().settings);
    SCOPED_TRACE(joined(settings));
    PlannedProgram made = planned(GetParam().model, "2x2", settings);
    expect_verifies(made);
    const MemoryProfile profile = memory_profile(made.program);
    EXPECT_EQ(made.plan.peak_bytes, profile.peak_bytes);
    EXPECT_GT(profile.saved_bytes, before);
    before = profile.saved_bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OrderOfStep,
                         testing::Values(Trial{"gpt2_tiny", {}}, Trial{"mlp_tiny", {"search.zero=1", "search.batch_axes=all"}},
                                         Trial{"mlp_tiny", {"search.zero=3", "search.batch_axes=all", "search.regather=always", "train.reduce_dtype=fp32"}},
                                         Trial{"mlp_tiny", {"search.zero=2", "search.batch_axes=all"}},
                                         Trial{"resnet_tiny", {"train.batch_coupling=allow", "train.tf32=true"}}));

class ManyMicrobatches : public testing::TestWithParam<Settings> {
 protected:
  static PlannedProgram many(std::int64_t microbatches, std::int64_t forwards) {
    return planned("mlp_tiny", "4", in_order(microbatches, forwards, with(GetParam(), "model.batch=" + std::to_string(4 * microbatches))));
  }
  static Settings with(Settings settings, const std::string& more) {
    settings.push_back(more);
    return settings;
  }
};

// Of all of them, not of the first few.
TEST_P(ManyMicrobatches, HaveThePeakOfAll) {
  for (const std::int64_t forwards : {0, 2, 64}) {
    const PlannedProgram made = many(64, forwards);
    const MemoryProfile profile = memory_profile(made.program);
    const std::vector<std::int64_t> curve = memory_curve(made.program);
    EXPECT_EQ(profile.peak_bytes, *std::max_element(curve.begin(), curve.end())) << forwards;
    EXPECT_EQ(profile.curve.back().held.sum(), curve.back()) << forwards;
    std::int64_t held = 0;
    for (const HeldTensor& tensor : profile.peak_tensors) held += tensor.bytes;
    EXPECT_EQ(held, profile.peak_bytes) << forwards;
  }
}

// Sums that skip what repeats are those of every occurrence, tick by tick, also where reductions fall behind the computing.
TEST_P(ManyMicrobatches, TakeTheTimeOfAll) {
  for (const std::int64_t forwards : {0, 2, 64}) {
    const PlannedProgram made = many(64, forwards);
    for (const double slower : {1.0, 30.0, 1000.0}) {
      Program program = made.program;
      for (MeshAxis& axis : program.mesh.axes) axis.beta_seconds_per_byte *= slower;
      const Timeline sums = make_timeline(program, *made.tools.ops, made.tools.profile).value();
      const Timeline spans = make_timeline(program, *made.tools.ops, made.tools.profile, Detail::spans).value();
      EXPECT_EQ(sums.step_seconds, spans.step_seconds);
      EXPECT_EQ(sums.communication_seconds, spans.communication_seconds);
      EXPECT_EQ(sums.waits_before_updates, spans.waits_before_updates);
      EXPECT_EQ(sums.waits_at_end, spans.waits_at_end);
      EXPECT_EQ(spans.spans.size(), occurrences(program).size());
    }
  }
}

TEST_P(ManyMicrobatches, AreNotUnrolled) {
  const PlannedProgram few = many(4, 0), all = many(64, 0);
  EXPECT_EQ(all.program.instructions.size(), few.program.instructions.size());
  EXPECT_EQ(all.program.values.size(), few.program.values.size());
  EXPECT_EQ(memory_profile(all.program).curve.size(), memory_profile(few.program).curve.size());
  const auto walked = [](const PlannedProgram& made) { return make_timeline(made.program, *made.tools.ops, made.tools.profile)->spans.size(); };
  EXPECT_LE(walked(all), 2 * walked(few));
}

INSTANTIATE_TEST_SUITE_P(Settings, ManyMicrobatches,
                         testing::Values(Settings{"search.zero=0"}, Settings{"search.zero=1", "search.batch_axes=all"},
                                         Settings{"search.zero=2", "search.batch_axes=all"},
                                         Settings{"search.zero=3", "search.batch_axes=all", "search.regather=always", "search.prefetch=always"},
                                         Settings{"search.zero=0", "search.batch_axes=all", "train.gradients=reduced"}));

TEST(OrderSetting, IsCheckedWhereItIsRead) {
  const Result<host::PlanOutcome> refused = plan_tiny("mlp_tiny", "4", {"train.microbatches=2", "train.order=F0 B0 B1 F1"});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("\"order\" in [train]: 'B1' stands before F1"), std::string::npos) << refused.error().message;
}

TEST(OrderSetting, IsRefusedByWhoDoesNotFollowIt) {
  PlannedProgram made = planned("mlp_tiny", "4", in_order(2, 1, {}));
  const auto backend = made.host.create<Backend>("backend", "torch").value();
  const auto files = backend->emit({made.program, *made.tools.ops, made.tools.profile, nullptr, {}, nullptr, {}, &made.plan});
  ASSERT_FALSE(files);
  EXPECT_NE(files.error().message.find("[train] order"), std::string::npos) << files.error().message;
}

}  // namespace
}  // namespace meshwright::test
