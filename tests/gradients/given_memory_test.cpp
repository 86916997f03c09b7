// What op families compute into memory that is given to them, whatever stands there, is what they compute into memory of
// their own: every case of theirs, and the ops of its gradient.
#include <gtest/gtest.h>

#include "case_runner.h"

namespace meshwright {
namespace {

// Computes everything twice.
class Twice final : public OpFamily {
 public:
  explicit Twice(const OpFamily& family) : family_(family) {}
  [[nodiscard]] int used() const { return used_; }

 private:
  Result<Rule> do_rule(const OpCall& call) const override { return family_.rule(call); }
  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override { return family_.cost(call, rule); }
  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    Result<std::vector<Tensor>> own = family_.evaluate(call, operands);
    if (!own) return own;
    OpCall into = call;
    std::vector<std::vector<std::byte>> memory;
    for (const TensorType& type : call.results) {
      memory.emplace_back(static_cast<std::size_t>(type.bytes()), std::byte{0xAB});
      into.memory.emplace_back(memory.back());
    }
    const Result<std::vector<Tensor>> there = family_.evaluate(into, operands);
    EXPECT_TRUE(there.ok()) << call.node.op;
    for (std::size_t i = 0; there && i < there->size(); ++i) {
      EXPECT_TRUE(std::ranges::equal((*own)[i].bytes(), (*there)[i].bytes())) << call.node.op << " gives another result " << i;
      if (!memory[i].empty() && (*there)[i].bytes().data() == memory[i].data()) ++used_;
    }
    return own;
  }

  const OpFamily& family_;
  mutable int used_ = 0;
};

class TwiceTable final : public OpTable {
 public:
  explicit TwiceTable(const OpTable& ops) : ops_(ops) {}
  [[nodiscard]] const OpFamily* find(std::string_view op) const override {
    const OpFamily* family = ops_.find(op);
    return family == nullptr ? nullptr : &families_.try_emplace(family, *family).first->second;
  }
  [[nodiscard]] int used() const {
    int sum = 0;
    for (const auto& [family, twice] : families_) sum += twice.used();
    return sum;
  }

 private:
  const OpTable& ops_;
  mutable std::map<const OpFamily*, Twice> families_;
};

TEST(GivenMemory, HoldsWhatOwnMemoryWould) {
  const std::unique_ptr<OpTable> ops = test::open_ops();
  const TwiceTable twice(*ops);
  for (const std::string& family : test::families_with_cases()) {
    for (const OpCase& op_case : test::read_cases(family)) {
      SCOPED_TRACE(family + ", case " + std::to_string(op_case.number));
      std::map<ValueId, Tensor> sources = draw_sources(op_case, 1);
      const Result<TrainingGraph> training = differentiate(with_loss(op_case, sources), *ops);
      ASSERT_TRUE(training.ok()) << training.error().message;
      const Result<std::vector<Tensor>> values = interpret(training->graph, twice, sources);
      ASSERT_TRUE(values.ok()) << values.error().message;
    }
  }
  EXPECT_GT(twice.used(), 1000);
}

}  // namespace
}  // namespace meshwright
