// Faults seeded in memory, one at a time, each of which a check that stands elsewhere must find:
//
//   conformance   the rules of a family, executed sharded and compared with one device
//   validate      layouts alone: proves that a finished program lacks no collective
//   verify        a whole step on ranks, compared with one device
//   memory        what the search counts of a plan's memory, against what its program holds
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <set>

#include "altered_ops.h"
#include "conformance.h"
#include "meshwright/solver.h"
#include "program_bench.h"
#include "sources.h"
#include "taken_out.h"
#include "verify.h"

namespace meshwright::test {
namespace {

enum class Check { conformance, validate, verify, memory };

struct Fault {
  const char* room;
  const char* name;
  Check found_by;
  // Of conformance: the cases, the op, and what becomes of its rule.
  const char* family = "";
  const char* op = "";
  std::function<void(Rule&)> rule = {};
  // Of validate and verify: what becomes of the program; false if it has nothing to change.
  std::function<bool(Program&)> program = {};
  // Of memory: what becomes of the problem.
  std::function<void(StrategySpace&)> space = {};
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.room << ", " << fault.name; }

void shard_everything(Rule& rule) {
  for (Factor& factor : rule.factors) factor.whole = false;
}

// Takes the first instruction for which `change` says that it changed it.
std::function<bool(Program&)> in_first(std::function<bool(Program&, std::size_t)> change) {
  return [change](Program& program) {
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      if (change(program, i)) return true;
    }
    return false;
  };
}

bool computes(const Instruction& here, const std::string& op) { return here.compute() != nullptr && here.compute()->op == op; }

std::function<bool(Program&)> without(std::function<bool(const Instruction&)> wanted) {
  return in_first([wanted](Program& program, std::size_t i) {
    if (!wanted(program.instructions[i])) return false;
    take_out(program, i);
    return true;
  });
}

bool adds_one_operand_twice(Program& program, std::size_t i) {
  Instruction& here = program.instructions[i];
  if (!computes(here, "aten.add.Tensor") || here.operands.size() != 2 || here.phase != Phase::forward) return false;
  ProgramOperand& left = here.operands[0];
  ProgramOperand& right = here.operands[1];
  if (left.value == right.value || program.type(left.value) != program.type(right.value) || left.needed != right.needed) return false;
  right.value = left.value;
  std::erase_if(program.instructions, [](const Instruction& each) { return each.kind() == InstructionKind::free; });
  place_frees(program);
  return true;
}

bool computes_another_op(Program& program, std::size_t i) {
  if (!computes(program.instructions[i], "aten.tanh")) return false;
  program.instructions[i].compute()->op = "aten.sigmoid";
  return true;
}

bool reads_the_first_microbatch_twice(Program& program) {
  bool changed = false;
  for (ProgramInput& input : program.inputs) {
    changed |= input.microbatch == 1;
    input.microbatch = 0;
  }
  return changed;
}

bool frees_before_the_last_use(Program& program, std::size_t i) {
  if (i == 0 || program.instructions[i].kind() != InstructionKind::free || program.instructions[i - 1].kind() != InstructionKind::compute) return false;
  std::swap(program.instructions[i - 1], program.instructions[i]);
  return true;
}

bool needs_another_layout(Program& program, std::size_t i) {
  Instruction& here = program.instructions[i];
  if (here.kind() != InstructionKind::compute || here.operands.empty()) return false;
  const Layout whole(program.mesh.axes.size());
  if (here.operands[0].needed == whole) return false;
  here.operands[0].needed = whole;
  return true;
}

bool updates_with_the_gradient_of_another(Program& program) {
  for (ProgramParameter& one : program.parameters) {
    for (ProgramParameter& other : program.parameters) {
      if (&one == &other || one.gradient == kNoId || other.gradient == kNoId || one.gradient == other.gradient) continue;
      if (program.type(one.gradient) != program.type(other.gradient)) continue;
      const ProgramValueId first = one.gradient, second = other.gradient;
      std::swap(one.gradient, other.gradient);
      for (Instruction& here : program.instructions) {
        if (here.kind() != InstructionKind::update) continue;
        ProgramValueId& value = here.operands[0].value;
        value = value == first ? second : value == second ? first : value;
      }
      std::erase_if(program.instructions, [](const Instruction& here) { return here.kind() == InstructionKind::free; });
      place_frees(program);
      return true;
    }
  }
  return false;
}

std::function<bool(Program&)> over_another_axis(MoveKind kind) {
  return in_first([kind](Program& program, std::size_t i) {
    if (!is_move(program.instructions[i], kind)) return false;
    std::get<MoveStep>(program.instructions[i].action).move.axis ^= 1;
    return true;
  });
}

void scale_memory(StrategySpace& space, std::int64_t numerator, std::int64_t denominator) {
  for (MemoryTerm& term : space.memory) {
    for (std::int64_t& bytes : term.bytes) bytes = bytes * numerator / denominator;
  }
}

std::vector<Fault> faults() {
  const auto rule = [](const char* name, const char* family, const char* op, std::function<void(Rule&)> change) {
    Fault fault{"rules", name, Check::conformance};
    fault.family = family;
    fault.op = op;
    fault.rule = std::move(change);
    return fault;
  };
  const auto program = [](const char* room, const char* name, Check found_by, std::function<bool(Program&)> change) {
    Fault fault{room, name, found_by};
    fault.program = std::move(change);
    return fault;
  };
  const auto term = [](const char* name, std::function<void(StrategySpace&)> change) {
    Fault fault{"terms", name, Check::memory};
    fault.space = std::move(change);
    return fault;
  };
  return {
      rule("NormShardsWhatItNormalizes", "norm", "aten.layer_norm", shard_everything),
      rule("PadShardsWhatItPads", "pad", "aten.constant_pad_nd", shard_everything),
      rule("CumulativeSumShardsItsDimension", "scan", "aten.cumsum", shard_everything),
      rule("TanhClaimsToBeLinear", "pointwise", "aten.tanh", [](Rule& rule) { rule.linear = {{0}}; }),
      rule("ProductClaimsToBeASum", "pointwise", "aten.mul.Tensor", [](Rule& rule) { rule.linear = {{0, 1}}; }),
      rule("BiasIsAddedOnEveryRank", "matmul", "aten.linear",
           [](Rule& rule) {
             for (TensorRule& operand : rule.operands) operand.addend = false;
           }),
      rule("SumOfShardsTakenForTheWhole", "reduction", "aten.sum.dim_IntList",
           [](Rule& rule) {
             for (Factor& factor : rule.factors) factor.internal = true;
           }),
      program("lowering", "AnOperandIsAnotherValue", Check::verify, in_first(adds_one_operand_twice)),
      program("lowering", "AnOpIsAnotherOne", Check::verify, in_first(computes_another_op)),
      program("lowering", "TheFirstMicrobatchIsReadTwice", Check::verify, reads_the_first_microbatch_twice),
      program("lowering", "AValueIsFreedBeforeItsLastUse", Check::validate, in_first(frees_before_the_last_use)),
      program("lowering", "AnOperandIsNeededInAnotherLayout", Check::validate, in_first(needs_another_layout)),
      program("passes", "AParameterIsNotUpdated", Check::validate, in_first([](Program& made, std::size_t i) {
                if (made.instructions[i].kind() != InstructionKind::update) return false;
                made.instructions.erase(made.instructions.begin() + static_cast<std::ptrdiff_t>(i));
                return true;
              })),
      program("passes", "AParameterTakesTheGradientOfAnother", Check::verify, updates_with_the_gradient_of_another),
      program("passes", "AGradientIsNotAddedUp", Check::verify,
              without([](const Instruction& here) { return here.kind() == InstructionKind::accumulate; })),
      program("passes", "AnAllReduceIsLeftOut", Check::validate,
              without([](const Instruction& here) { return is_move(here, MoveKind::all_reduce); })),
      program("passes", "AGatherIsLeftOut", Check::validate,
              without([](const Instruction& here) { return is_move(here, MoveKind::all_gather); })),
      program("passes", "AnAllReduceGoesOverAnotherAxis", Check::validate, over_another_axis(MoveKind::all_reduce)),
      program("passes", "AGatherGoesOverAnotherAxis", Check::validate, over_another_axis(MoveKind::all_gather)),
      term("EverythingIsCountedTwice", [](StrategySpace& space) { scale_memory(space, 2, 1); }),
      term("AThirdIsForgotten", [](StrategySpace& space) { scale_memory(space, 2, 3); }),
      term("WhatIsSavedIsHeldAtOneTimeOnly",
           [](StrategySpace& space) {
             for (MemoryTerm& each : space.memory) each.end = each.begin + 1;
           }),
  };
}

bool found_by_conformance(const Fault& fault) {
  const host::ProgramTools& tools = bench().tools;
  const AlteredOps altered(*tools.ops, fault.op, fault.rule);
  std::vector<OpCase> cases = read_cases(fault.family);
  std::erase_if(cases, [&](const OpCase& op_case) { return op_case.graph.nodes[0].op != fault.op; });
  EXPECT_FALSE(cases.empty()) << "no cases of " << fault.op;
  const ConformanceTools with{altered, *tools.conversions, {tools.parameter_shard.get(), tools.communication.get(), tools.reshape.get()}, *bench().reference};
  return !check_conformance(cases, with, {.look_for_more = false}).wrong.empty();
}

// A small GPT-2 in two microbatches on 2x2, planned at random.
class Gpt2 {
 public:
  Program program() const {
    TrainingSettings training;
    training.microbatches = 2;
    const ProblemInput input{{model_, training, *bench().tools.ops, profile_, *bench().tools.conversions}, mesh_, {}};
    return host::make_program(draw_plan(input, build_problem(input).value(), 2).value(), bench().tools).value();
  }

  // Whether a step computes what it computes on one device; a run that is refused does not.
  bool computes(const Program& program) const {
    const auto further = sample_microbatches(*model_.graph, {}, program.training.microbatches).value();
    const Result<Verification> result =
        verify({*model_.graph, program, *bench().tools.ops, profile_, nullptr, *bench().reference, sources_, 1e-9, 1e-3, further});
    return result && result->equal;
  }

 private:
  ModelAnalysis model_ = make_float64_model(read_model("gpt2_tiny"), *bench().tools.ops).value();
  std::map<ValueId, Tensor> sources_ = sample_sources(*model_.graph, {}, 0).value();  // microbatch n is drawn by the seed n
  const Mesh mesh_ = plain_mesh({2, 2});
  const CostProfile profile_ = plain_profile();
};

// The fastest plan of data parallelism with ZeRO-3, of which little is held that is not counted (memory_terms_test.cpp).
bool memory_is_right(const std::function<void(StrategySpace&)>& change) {
  const ModelAnalysis model = make_float64_model(read_model("gpt2_tiny"), *bench().tools.ops).value();
  const Mesh mesh = plain_mesh({4});
  const CostProfile profile = plain_profile();
  const TrainingSettings training;
  const StrategyFilter filter{.batch_axes = 1, .zero = ZeroStage::value};
  const ProblemInput input{{model, training, *bench().tools.ops, profile, *bench().tools.conversions}, mesh, filter};
  Problem problem = build_problem(input).value();
  if (change) change(problem.space);
  const std::int64_t budgets[] = {kNoBudget};
  std::vector<Assignment> answers =
      bench().host.create<IntraSolver>("intra", "elimination").value()->solve(problem.space, budgets, {}).value();
  const Plan plan = make_plan(input, problem, answers[0]).value();
  const std::vector<std::int64_t> curve = memory_curve(host::make_program(plan, bench().tools).value());
  const std::int64_t held = *std::max_element(curve.begin(), curve.end());
  return plan.peak_bytes <= held && static_cast<double>(plan.peak_bytes) > 0.85 * static_cast<double>(held);
}

class SeededFault : public testing::TestWithParam<Fault> {};

TEST_P(SeededFault, IsFound) {
  const Fault& fault = GetParam();
  if (fault.found_by == Check::conformance) {
    EXPECT_TRUE(found_by_conformance(fault));
  } else if (fault.found_by == Check::memory) {
    EXPECT_FALSE(memory_is_right(fault.space));
  } else {
    static const Gpt2 model;
    Program program = model.program();
    ASSERT_TRUE(fault.program(program)) << "the program has nothing to change";
    const Status status = validate_finished(program);
    if (fault.found_by == Check::validate) EXPECT_FALSE(status) << "the program is valid";
    else EXPECT_FALSE(status && model.computes(program));
  }
}

INSTANTIATE_TEST_SUITE_P(Twenty, SeededFault, testing::ValuesIn(faults()),
                         [](const auto& info) { return std::string(info.param.room) + "_" + info.param.name; });

// Without a fault nothing is found, or the cases above could not fail.
TEST(SeededFaults, NothingIsFoundWithoutOne) {
  const Gpt2 model;
  const Program program = model.program();
  EXPECT_TRUE(validate_finished(program));
  EXPECT_TRUE(model.computes(program));
  EXPECT_TRUE(memory_is_right({}));
  std::set<std::string> names;
  for (Fault fault : faults()) {
    names.insert(fault.name);
    if (fault.found_by != Check::conformance) continue;
    fault.rule = [](Rule&) {};
    EXPECT_FALSE(found_by_conformance(fault)) << fault.name;
  }
  EXPECT_GE(names.size(), 20u);
}

}  // namespace
}  // namespace meshwright::test
