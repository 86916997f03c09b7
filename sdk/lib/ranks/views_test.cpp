#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "program_fixtures.h"
#include "run_ranks.h"

namespace meshwright {
namespace {

using testing::count_up;
using testing::ProgramBuilder;

// "reverse" is a view: its elements in the opposite order, and "flip" is one of a matrix: its transpose. "negative" is none.
class TestFamily final : public OpFamily {
  Result<Rule> do_rule(const OpCall& call) const override { return replicated_rule(call.operands, call.results); }
  Result<OpCost> do_cost(const OpCall& call, const Rule&) const override {
    OpCost cost;
    cost.alias = call.node.op == "reverse" || call.node.op == "flip";
    cost.transposes = call.node.op == "flip";
    return cost;
  }
  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    Tensor result = call.result(0);
    for (std::int64_t i = 0; call.node.op == "flip" && i < result.elements(); ++i) {
      const std::int64_t rows = result.shape()[0], columns = result.shape()[1];
      result.set(i, operands[0]->get(i % columns * rows + i / columns));
    }
    if (call.node.op == "flip") return listed(std::move(result));
    for (std::int64_t i = 0; i < result.elements(); ++i) {
      result.set(i, call.node.op == "reverse" ? operands[0]->get(result.elements() - 1 - i) : -operands[0]->get(i));
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

// The outputs of the first rank.
class Observer final : public RunObserver {
 public:
  void on_update(std::int64_t, std::uint32_t, const Tensor&, const Tensor&) override {}
  void on_output(std::int64_t rank, std::uint32_t output, const Tensor& value) override {
    const std::lock_guard lock(mutex_);
    if (rank != 0) return;
    std::vector<double>& numbers = outputs[output];
    for (std::int64_t i = 0; i < value.elements(); ++i) numbers.push_back(value.get(i));
  }
  void on_gathered(std::int64_t, std::uint32_t, const Tensor&) override {}
  std::map<std::uint32_t, std::vector<double>> outputs;

 private:
  std::mutex mutex_;
};

const TestOps kOps;

struct Ran {
  Report report;
  std::map<std::uint32_t, std::vector<double>> outputs;
};

Ran run(ProgramBuilder& build, const KernelTable* kernels = nullptr) {
  mark_views(build.program, kOps);
  place_frees(build.program);
  Observer observer;
  BackendInput input = build.input_for(kOps);
  input.kernels = kernels;
  const std::unique_ptr<Executable> executable = compile_ranks(input);
  EXPECT_TRUE(executable->load(input.source));
  const Result<Report> report = executable->step(input.source, &observer);
  EXPECT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->peak_bytes, std::ranges::max(memory_curve(build.program)));
  return {*report, observer.outputs};
}

TEST(Views, KeepTheirStorageWhenItsOwnerIsFreed) {
  ProgramBuilder build({2});
  const ProgramValueId x = build.input("x", count_up({4}), "S0");               // 8 bytes on each of two ranks
  const ProgramValueId whole = build.move(MoveKind::all_gather, 0, x, "R");     // 16
  const ProgramValueId first = build.compute("reverse", {whole}, "R");          // a view; then nobody needs `whole`
  const ProgramValueId second = build.compute("reverse", {first}, "R");         // a view of a view
  const ProgramValueId last = build.compute("negative", {first}, "R");          // 16
  build.output(build.compute("negative", {second}, "R"));                       // 16
  build.output(last);
  const Ran ran = run(build);
  EXPECT_EQ(ran.outputs.at(0), (std::vector<double>{0, -1, -2, -3}));
  EXPECT_EQ(ran.outputs.at(1), (std::vector<double>{-3, -2, -1, 0}));
  EXPECT_EQ(ran.report.peak_bytes, 3 * 16);  // x is gone, and each view takes nothing
  const std::vector<ProgramValueId> owner = storages(build.program);
  EXPECT_EQ(owner[second], whole);
  EXPECT_EQ(owner[first], whole);
  EXPECT_EQ(owner[last], last);
  // In order: gather, view, its `free` of whole, view, and so on: the storage goes with the last view.
  EXPECT_EQ(memory_curve(build.program).back(), 2 * 16);
}

TEST(Views, AreWhatAMoveReads) {
  ProgramBuilder build({2});
  const ProgramValueId x = build.input("x", count_up({4}), "S0");
  const ProgramValueId view = build.compute("reverse", {x}, "S0");
  build.output(build.move(MoveKind::all_gather, 0, view, "R"));
  EXPECT_EQ(run(build).outputs.at(0), (std::vector<double>{1, 0, 3, 2}));
}

TEST(Views, OfAnOutputsStorageKeepIt) {
  ProgramBuilder build({1});
  const ProgramValueId x = build.input("x", count_up({4}), "R");
  const ProgramValueId made = build.compute("negative", {x}, "R");
  build.output(build.compute("reverse", {made}, "R"));
  EXPECT_EQ(run(build).outputs.at(0), (std::vector<double>{-3, -2, -1, 0}));
  EXPECT_EQ(memory_curve(build.program).back(), 16);
}

// What is handed out at the end must be what was computed, not what the update made of it.
TEST(Views, OfAParameterThatAreHandedOutAreCopies) {
  ProgramBuilder build({1});
  build.program.training.optimizer = Optimizer::sgd;
  const ProgramValueId weight = build.parameter("w", count_up({4}, 1), "R");
  const ProgramValueId x = build.input("x", count_up({4}), "R");
  const ProgramValueId view = build.compute("reverse", {weight}, "R"), again = build.compute("reverse", {view}, "R");
  const ProgramValueId read = build.compute("reverse", {weight}, "R");
  build.output(again);
  build.output(build.compute("negative", {read}, "R"));
  build.update(0, build.compute("negative", {x}, "R"));
  const Ran ran = run(build);
  EXPECT_EQ(ran.outputs.at(0), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(ran.outputs.at(1), (std::vector<double>{-4, -3, -2, -1}));
  const std::vector<ProgramValueId> owner = storages(build.program);
  EXPECT_EQ(owner[view], view);
  EXPECT_EQ(owner[again], view);
  EXPECT_EQ(owner[read], weight);
}

// Computes "negative", also of what lies transposed, and keeps in mind what it read.
class TestKernels final : public KernelTable, public OpKernels {
 public:
  explicit TestKernels(bool reads_transposed) : reads_transposed_(reads_transposed) {}
  const OpKernels* find(std::string_view op) const override { return op == "negative" ? this : nullptr; }
  bool reads_transposed(const OpCall& call, std::size_t) const override { return reads_transposed_ && call.operands[0].rank() == 2; }
  mutable std::vector<Tensor> read;

 private:
  Result<std::vector<Tensor>> do_compute(const OpCall& call, std::span<const Tensor* const> operands) const override {
    read.push_back(*operands[0]);
    const bool transposed = !call.transposed.empty() && call.transposed[0];
    Tensor result = call.result(0);
    const std::int64_t rows = result.shape()[0], columns = result.shape()[1];
    for (std::int64_t i = 0; i < result.elements(); ++i) result.set(i, -operands[0]->get(transposed ? i % columns * rows + i / columns : i));
    return listed(std::move(result));
  }

  const bool reads_transposed_;
};

TEST(Views, ThatTransposeAreReadAsTheyLieByKernelsThatSaySo) {
  for (const bool reads_transposed : {false, true}) {
    ProgramBuilder build({1});
    const ProgramValueId x = build.input("x", count_up({2, 3}), "RR");
    const ProgramValueId once = build.compute("flip", {x}, "RR");
    build.program.values[once].type.type.shape = {3, 2};
    build.program.values[once].type.atoms = whole_dimensions({3, 2});
    build.output(build.compute("negative", {once}, "RR"));
    const TestKernels kernels(reads_transposed);
    EXPECT_EQ(run(build, &kernels).outputs.at(0), (std::vector<double>{0, -3, -1, -4, -2, -5}));
    ASSERT_EQ(kernels.read.size(), 1U);
    EXPECT_EQ(kernels.read[0].shape(), (reads_transposed ? std::vector<std::int64_t>{2, 3} : std::vector<std::int64_t>{3, 2}));
  }
}

TEST(Views, AreAskedOfFamiliesAlone) {
  ProgramBuilder build({1});
  const ProgramValueId x = build.input("x", count_up({4}), "R");
  build.output(build.compute("nobody", {x}, "R"));
  build.output(build.compute("reverse", {x, x}, "R"));  // reads two tensors
  mark_views(build.program, kOps);
  for (const Instruction& instruction : build.program.instructions) EXPECT_FALSE(instruction.is_alias()) << instruction.compute()->op;
}

}  // namespace
}  // namespace meshwright
