#include "run_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "program_fixtures.h"

namespace meshwright {
namespace {

using testing::count_up;
using testing::ProgramBuilder;

// "double" and "square" of an operand, "add" of two; "fail" where the attribute `here` is 1.
class TestFamily final : public OpFamily {
  Result<Rule> do_rule(const OpCall& call) const override { return replicated_rule(call.operands, call.results); }
  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }
  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    if (call.node.op == "fail") {
      const std::vector<std::int64_t> here = call.node.integers("here");
      if (here.empty() || here[0] == 1) return bad_input("no such luck");
    }
    Tensor result = call.zeros(0);
    for (std::int64_t i = 0; i < result.elements(); ++i) {
      const double a = operands[0]->get(i);
      result.set(i, call.node.op == "square" ? a * a : call.node.op == "add" ? a + operands[1]->get(i) : 2 * a);
    }
    return listed(std::move(result));
  }
};

class TestOps final : public OpTable {
 public:
  const OpFamily* find(std::string_view op) const override { return op == "nobody" ? nullptr : &family_; }

 private:
  TestFamily family_;
};

class Observer final : public RunObserver {
 public:
  void on_update(std::int64_t rank, std::uint32_t, const Tensor& gradient, const Tensor& updated) override {
    const std::lock_guard lock(mutex_);
    gradients.insert_or_assign(rank, gradient);
    updates.insert_or_assign(rank, updated);
  }
  void on_output(std::int64_t rank, std::uint32_t, const Tensor& value) override {
    const std::lock_guard lock(mutex_);
    outputs.insert_or_assign(rank, value);
  }
  void on_gathered(std::int64_t, std::uint32_t, const Tensor&) override {}
  std::map<std::int64_t, Tensor> gradients, updates, outputs;

 private:
  std::mutex mutex_;
};

const TestOps kOps;

Result<Report> run(ProgramBuilder& build, Observer& observer, const RunOptions& options = {}) {
  BackendInput input = build.input_for(kOps);
  const std::unique_ptr<Executable> executable = compile_ranks(input, options);
  if (Status status = executable->load(input.source); !status) return status.error();
  return executable->step(input.source, &observer);
}

std::vector<double> numbers(const Tensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) values.push_back(tensor.get(i));
  return values;
}

TEST(RunRanks, ComputesOnPartsAndGathersThem) {
  ProgramBuilder build({2, 2});
  const ProgramValueId x = build.input("x", count_up({4, 2}), "S0S1");
  const ProgramValueId doubled = build.compute("double", {x}, "S0S1");
  const ProgramValueId row = build.move(MoveKind::all_gather, 1, doubled, "S0R");
  build.output(build.move(MoveKind::all_gather, 0, row, "RR"));
  place_frees(build.program);
  Observer observer;
  const Result<Report> report = run(build, observer);
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(observer.outputs.size(), 4U);
  for (const auto& [rank, output] : observer.outputs) {
    EXPECT_EQ(numbers(output), (std::vector<double>{0, 2, 4, 6, 8, 10, 12, 14})) << rank;
  }
  EXPECT_EQ(report->ranks, 4);
  EXPECT_EQ(report->bytes_sent, sent_bytes(build.program));
  EXPECT_EQ(report->bytes_sent, 4 * 8 + 4 * 16);
  EXPECT_EQ(report->peak_bytes, std::ranges::max(memory_curve(build.program)));
}

// The gradient of a parameter under data parallelism, padded: 50 rows over 8 ranks.
class Training : public ::testing::TestWithParam<Optimizer> {};

TEST_P(Training, UpdatesAPaddedShardedParameter) {
  ProgramBuilder build({8});
  build.program.training.optimizer = GetParam();
  const ProgramValueId weight = build.parameter("w", count_up({50, 3}, 1), "RR");
  const ProgramValueId input = build.input("x", count_up({50, 3}, -20), "RR");
  build.program.values[weight].type.atoms.paddable = {true, false};
  build.program.values[input].type.atoms.paddable = {true, false};
  build.program.values[weight].type.layout.place(0, Placement::shard(0));
  const ProgramValueId gathered = build.move(MoveKind::all_gather, 0, weight, "RR");
  const ProgramValueId sum = build.compute("add", {gathered, input}, "RR");
  const ProgramValueId partial = build.move(MoveKind::keep_one, 0, sum, "RR");
  build.program.values[partial].type.layout.place(0, Placement::partial_sum());
  const ProgramValueId gradient = build.move(MoveKind::reduce_scatter, 0, partial, "S0R");
  build.update(0, gradient);
  place_frees(build.program);
  Observer observer;
  const Result<Report> report = run(build, observer, {.scatter_partials = 3, .instructions = {}});
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(observer.updates.size(), 8U);
  for (const auto& [rank, updated] : observer.updates) {
    EXPECT_EQ(updated.shape(), (std::vector<std::int64_t>{7, 3}));
    for (std::int64_t i = 0; i < 21; ++i) {
      const std::int64_t at = rank * 21 + i;
      const double before = at < 150 ? static_cast<double>(at + 1) : 0;
      const double slope = at < 150 ? static_cast<double>(2 * at - 19) : 0;
      EXPECT_NEAR(observer.gradients.at(rank).get(i), slope, 1e-3);
      const double step = GetParam() != Optimizer::adamw ? 1e-3 * slope : before * 1e-5 + (slope > 0 ? 1e-3 : -1e-3);
      EXPECT_NEAR(updated.get(i), at < 150 ? before - step : 0, 1e-4);
    }
  }
  EXPECT_EQ(report->bytes_sent, sent_bytes(build.program));
  EXPECT_EQ(report->peak_bytes, std::ranges::max(memory_curve(build.program)));
}

INSTANTIATE_TEST_SUITE_P(Each, Training, ::testing::Values(Optimizer::sgd, Optimizer::momentum, Optimizer::adamw));

// x → P → square → R: wrong, since a square is not linear; keep_one alone would not show it.
TEST(RunRanks, ScatteredPartialsFindOpsThatAreNotLinear) {
  for (const std::string op : {"double", "square"}) {
    ProgramBuilder build({4});
    const ProgramValueId x = build.input("x", count_up({3}, 1), "R");
    const ProgramValueId partial = build.move(MoveKind::keep_one, 0, x, "R+P0");
    const ProgramValueId result = build.compute(op, {partial}, "R+P0");
    build.output(build.move(MoveKind::all_reduce, 0, result, "R"));
    Observer kept, scattered;
    ASSERT_TRUE(run(build, kept).ok());
    ASSERT_TRUE(run(build, scattered, {.scatter_partials = 1, .instructions = {}}).ok());
    const double difference = std::abs(kept.outputs.at(2).get(2) - scattered.outputs.at(2).get(2));
    EXPECT_EQ(difference > 1e-3, op == "square") << difference;
    EXPECT_EQ(numbers(scattered.outputs.at(0)), numbers(scattered.outputs.at(3)));
  }
}

ProgramBuilder gathering() {
  ProgramBuilder build({2, 2});
  const ProgramValueId x = build.input("x", count_up({4, 2}), "S0S1");
  const ProgramValueId row = build.move(MoveKind::all_gather, 1, x, "S0R");
  build.output(build.move(MoveKind::all_gather, 0, row, "RR"));
  return build;
}

TEST(RunRanks, NamesACollectiveThatARankLeavesOut) {
  ProgramBuilder build = gathering();
  Observer observer;
  const Result<Report> report =
      run(build, observer, {.scatter_partials = {}, .instructions = {{0, 1}, {0, 1}, {}, {0, 1}}});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().message,
            "instruction 0 (all_gather along axis 1 of 'x'): not all ranks of the group entered it: came 3; "
            "rank 2 has left");
}

TEST(RunRanks, NamesACollectiveThatARankSkips) {
  ProgramBuilder build({2});
  const ProgramValueId x = build.input("x", count_up({4}), "S0"), y = build.input("y", count_up({4}), "S0");
  build.output(build.move(MoveKind::all_gather, 0, x, "R"));
  build.output(build.move(MoveKind::all_gather, 0, y, "R"));
  Observer observer;
  const Result<Report> report = run(build, observer, {.scatter_partials = {}, .instructions = {{0, 1}, {1}}});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().message,
            "instruction 0 (all_gather along axis 0 of 'x'): not all ranks of the group entered it: came 0; "
            "rank 1 waits at instruction 1 (all_gather along axis 0 of 'y')");
}

// Rank 1 alone fails, between two collectives; the others wait for it in the second.
TEST(RunRanks, ARankThatFailsStopsTheOthers) {
  ProgramBuilder build({4});
  const ProgramValueId x = build.input("x", count_up({4}), "S0");
  const ProgramValueId whole = build.move(MoveKind::all_gather, 0, x, "R");
  const ProgramValueId odd = build.compute("fail", {whole}, "R");
  build.program.instructions.back().compute()->rank_attributes["here"] = {{0}, {{1}}};
  const ProgramValueId part = build.move(MoveKind::slice, 0, odd, "S0");
  build.output(build.move(MoveKind::all_gather, 0, part, "R"));
  for (int repeat = 0; repeat < 20; ++repeat) {
    Observer observer;
    const Result<Report> report = run(build, observer);
    ASSERT_FALSE(report.ok());
    EXPECT_NE(report.error().message.find("rank 1, instruction 1 (fail 'fail2'): "), std::string::npos)
        << report.error().message;
    EXPECT_NE(report.error().message.find("no such luck"), std::string::npos);
    EXPECT_TRUE(observer.outputs.empty());
  }
}

TEST(RunRanks, OfSeveralFailuresTheLowestRanksIsTold) {
  ProgramBuilder build({4});
  build.output(build.compute("nobody", {build.input("x", count_up({4}), "S0")}, "S0"));
  for (int repeat = 0; repeat < 20; ++repeat) {
    Observer observer;
    const Result<Report> report = run(build, observer);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().message.find("rank 0, instruction 0"), 0U) << report.error().message;
  }
}

TEST(RunRanks, RefusesWhatItCanNotRun) {
  ProgramBuilder build({2});
  const ProgramValueId x = build.input("x", count_up({4}), "S0");
  build.output(build.move(MoveKind::all_gather, 0, x, "R"));
  build.program.instructions[0].action = Convert{};
  Observer observer;
  EXPECT_NE(run(build, observer).error().message.find("not finished"), std::string::npos);
  build.sources.at(0) = count_up({5});
  EXPECT_NE(run(build, observer).error().message.find("'x' is float32[4]"), std::string::npos);
}

// Two ranks that hold half of w each, whose gradient is twice w.
TEST(RunRanks, KeepsParametersAndTheOptimizersStateFromStepToStep) {
  ProgramBuilder build({2});
  build.program.training.optimizer = Optimizer::momentum;
  const ProgramValueId w = build.parameter("w", count_up({4}, 1), "S0");
  const ProgramValueId gradient = build.compute("double", {w}, "S0");
  build.update(0, gradient);
  BackendInput input = build.input_for(kOps);
  input.optimizer = {.learning_rate = 0.25, .momentum = 0.5};
  const std::unique_ptr<Executable> executable = compile_ranks(input);
  EXPECT_FALSE(executable->step(input.source));
  EXPECT_FALSE(executable->fetch(0));
  ASSERT_TRUE(executable->load(input.source));
  EXPECT_EQ(numbers(executable->fetch(0).value()), (std::vector<double>{1, 2, 3, 4}));
  ASSERT_TRUE(executable->step(input.source));  // the gradient is 2 w, the buffer too
  EXPECT_EQ(numbers(executable->fetch(0).value()), (std::vector<double>{0.5, 1, 1.5, 2}));
  ASSERT_TRUE(executable->step(input.source));  // the gradient is w of before the first step, the buffer twice that
  EXPECT_EQ(numbers(executable->fetch(0).value()), (std::vector<double>{0, 0, 0, 0}));
  ASSERT_TRUE(executable->load(input.source));
  ASSERT_TRUE(executable->step(input.source));
  EXPECT_EQ(numbers(executable->fetch(0).value()), (std::vector<double>{0.5, 1, 1.5, 2}));
  EXPECT_FALSE(executable->fetch(7));
}

// The same two steps with everything fetched between them and loaded again: by four ranks, which hold other parts.
TEST(RunRanks, GoesOnFromWhatWasFetched) {
  const auto built = [](std::int64_t ranks) {
    ProgramBuilder build({ranks});
    build.program.training.optimizer = Optimizer::momentum;
    const ProgramValueId w = build.parameter("w", count_up({4}, 1), "S0");
    build.update(0, build.compute("double", {w}, "S0"));
    return build;
  };
  const ProgramBuilder on_two = built(2), on_four = built(4);
  BackendInput first = on_two.input_for(kOps), second = on_four.input_for(kOps);
  first.optimizer = second.optimizer = {.learning_rate = 0.25, .momentum = 0.5};
  const std::unique_ptr<Executable> before = compile_ranks(first), after = compile_ranks(second);
  EXPECT_FALSE(before->fetch_state(0));
  ASSERT_TRUE(before->load(first.source));
  EXPECT_EQ(before->fetch_state(0).value().steps, 0);
  EXPECT_TRUE(before->fetch_state(0).value().first.bytes().empty());
  ASSERT_TRUE(before->step(first.source));
  const Tensor w = before->fetch(0).value();
  const OptimizerState state = before->fetch_state(0).value();
  EXPECT_EQ(state.steps, 1);
  EXPECT_EQ(numbers(state.first), (std::vector<double>{2, 4, 6, 8}));
  EXPECT_TRUE(state.second.bytes().empty());
  EXPECT_FALSE(before->fetch_state(7));
  const auto from_w = [&](ValueId, std::int64_t) { return &w; };
  ASSERT_TRUE(after->load(from_w, [&](ValueId) { return &state; }));
  EXPECT_EQ(numbers(after->fetch_state(0).value().first), (std::vector<double>{2, 4, 6, 8}));
  ASSERT_TRUE(after->step(from_w));
  EXPECT_EQ(numbers(after->fetch(0).value()), (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(after->fetch_state(0).value().steps, 2);

  const OptimizerState too_much{1, state.first, state.first}, of_another_size{1, count_up({5}), {}};
  for (const OptimizerState* wrong : {&too_much, &of_another_size}) {
    const Status refused = after->load(from_w, [&](ValueId) { return wrong; });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "the state given for 'w' is not what the optimizer keeps of it");
  }
}

}  // namespace
}  // namespace meshwright
