// What a loss sums up in the forward, and its backward finds or does not: by what is launched, and by the gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "guarded_kernel.h"
#include "step_on_host.h"

namespace meshwright::cuda {
namespace {

constexpr std::int64_t kPositions = 4, kClasses = 16;

class StepKeeper : public ::testing::Test {
 protected:
  StepKeeper() {
    logits_ = build_.input("logits", meshwright::testing::count_up({kPositions, kClasses}), "RR");
    scale_ = build_.input("scale", meshwright::testing::count_up({}), "");
    for (ProgramValueId* each : {&labels_, &other_labels_}) {
      *each = build_.input("labels", meshwright::testing::count_up({kPositions}), "R");
      build_.program.values[*each].type.type.dtype = DType::int64;
    }
  }

  ProgramValueId loss(ProgramValueId logits, ProgramValueId labels, std::int64_t ignored = -100) {
    const ProgramValueId made =
        build_.compute("aten.cross_entropy_loss", {scale_, logits, labels}, "", {{"ignore_index", ignored}});
    std::vector<ProgramOperand>& operands = build_.program.instructions.back().operands;
    operands.erase(operands.begin());
    name(operands, {"self", "target"});
    build_.output(made);
    return made;
  }
  ProgramValueId gradient(ProgramValueId logits, ProgramValueId labels, std::int64_t ignored = -100) {
    const ProgramValueId made = build_.compute("meshwright.cross_entropy_backward", {logits, labels, scale_}, "RR",
                                               {{"ignore_index", ignored}});
    name(build_.program.instructions.back().operands, {"self", "target", "grad_output"});
    build_.output(made);
    return made;
  }

  // How often logits are read for terms.
  int run() {
    const StepOnHost built(build_, build_.program, {});
    for (const bool is_other : {false, true}) {
      const ProgramValueId labels = is_other ? other_labels_ : labels_;
      for (std::int64_t n = 0; built.has_place(labels) && n < kPositions; ++n)
        store(built.place(labels), Element::int64, n, label(n, is_other));
    }
    store(built.place(scale_), Element::float32, 0, 2);
    for (std::int64_t i = 0; i < kPositions * kClasses; ++i)
      store(built.place(logits_), Element::float32, i, std::sin(static_cast<double>(3 * i)));
    int terms = 0;
    for (const std::vector<Command>& commands : built.step.commands) {
      for (const Command& command : commands) {
        const auto& launch = std::get<Launch>(command.what);
        terms += launch.kernel == KernelId::loss_terms ? 1 : 0;
        EXPECT_EQ(run_guarded(launch, {&built.memory, 1}), "");
      }
    }
    made_.clear();
    for (const ProgramOutput& output : build_.program.outputs) {
      const Seen& seen = built.handed(output.value);
      std::vector<double>& numbers = made_.emplace_back();
      for (std::int64_t i = 0; i < seen.type.elements(); ++i) numbers.push_back(load(seen.data, Element::float32, i));
    }
    return terms;
  }
  // Of the mean of the labels that are not ignored.
  static std::vector<double> expected_gradient(bool of_others, std::int64_t ignored = -100) {
    std::vector<double> made;
    double counted = 0;
    for (std::int64_t n = 0; n < kPositions; ++n) counted += label(n, of_others) == ignored ? 0 : 1;
    for (std::int64_t n = 0; n < kPositions; ++n) {
      double sum = 0;
      const auto logit = [&](std::int64_t c) {
        return static_cast<double>(static_cast<float>(std::sin(static_cast<double>(3 * (n * kClasses + c)))));
      };
      for (std::int64_t c = 0; c < kClasses; ++c) sum += std::exp(logit(c));
      for (std::int64_t c = 0; c < kClasses; ++c) {
        const double slope = std::exp(logit(c)) / sum - (c == label(n, of_others) ? 1 : 0);
        made.push_back(label(n, of_others) == ignored ? 0 : 2 * slope / counted);
      }
    }
    return made;
  }
  static void expect_near(const std::vector<double>& made, const std::vector<double>& expected) {
    ASSERT_EQ(made.size(), expected.size());
    for (std::size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], expected[i], 1e-6) << i;
  }

  meshwright::testing::ProgramBuilder build_{{1}};
  ProgramValueId logits_ = kNoId, scale_ = kNoId, labels_ = kNoId, other_labels_ = kNoId;
  std::vector<std::vector<double>> made_;  // by output

 private:
  static std::int64_t label(std::int64_t n, bool of_others) { return of_others ? 15 - 4 * n : 3 * n; }
  static void name(std::vector<ProgramOperand>& operands, const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) operands[i].name = names[i];
  }
};

TEST_F(StepKeeper, SparesTheBackwardWhatTheForwardFound) {
  loss(logits_, labels_);
  gradient(logits_, labels_);
  EXPECT_EQ(run(), 1);
  expect_near(made_[1], expected_gradient(false));
}

TEST_F(StepKeeper, HasNothingOfOtherLabels) {
  loss(logits_, labels_);
  gradient(logits_, other_labels_);
  EXPECT_EQ(run(), 2);
  expect_near(made_[1], expected_gradient(true));
}

TEST_F(StepKeeper, HasWhatEachLossFound) {
  loss(logits_, labels_);
  loss(logits_, other_labels_);
  loss(logits_, labels_, 6);
  gradient(logits_, other_labels_);
  gradient(logits_, labels_, 6);
  gradient(logits_, labels_);
  EXPECT_EQ(run(), 3);
  expect_near(made_[3], expected_gradient(true));
  expect_near(made_[4], expected_gradient(false, 6));
  expect_near(made_[5], expected_gradient(false));
}

// What is kept beside a tensor lasts as long as it does, and no longer.
TEST_F(StepKeeper, TakesRoomAgainThatIsFree) {
  for (int i = 0; i < 3; ++i) {
    const ProgramValueId logits = build_.compute("aten.exp", {logits_}, "RR");
    loss(logits, labels_);
    gradient(logits, labels_);
  }
  EXPECT_EQ(run(), 3);
  const StepOnHost built(build_, build_.program, {});
  const std::size_t of_one = (static_cast<std::size_t>(kPositions) * 4 + 1) * sizeof(double);
  EXPECT_GE(built.step.block.beside_bytes, of_one);
  EXPECT_LT(built.step.block.beside_bytes, 2 * of_one + 256);
  EXPECT_EQ(made_[1], made_[3]);
  EXPECT_EQ(made_[1], made_[5]);
}

}  // namespace
}  // namespace meshwright::cuda
