// What each stage of ZeRO holds and sends, against the published formulas: Rajbhandari et al. 2020, section 3 and figure 1,
// for memory; DESIGN §2, "Cost and memory", for collectives. Data parallelism on a mesh of one axis; every parameter of the
// model divides by its devices.
#include <gmock/gmock.h>

#include <map>
#include <numeric>
#include <set>

#include "meshwright/gather_units.h"
#include "meshwright/memory_profile.h"
#include "planned_program.h"

namespace meshwright::test {
namespace {

using Settings = std::vector<std::string>;

std::int64_t parameters_of(const Plan& plan) {
  std::int64_t count = 0;
  for (const Source& source : plan.graph().sources) {
    if (source.kind == SourceKind::parameter) count += plan.graph().type(source.value).elements();
  }
  return count;
}

// --- memory ---

struct PerParameter {
  std::int64_t value, gradient, optimizer;  // bytes of one number
};

struct Setting {
  const char* name;
  Settings set;
  PerParameter bytes;
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

// Of all parameters, on each of N devices.
std::int64_t held_bytes(const PerParameter& bytes, int stage, std::int64_t parameters, std::int64_t devices) {
  const auto share = [&](std::int64_t each, int first_stage) { return each * parameters / (stage >= first_stage ? devices : 1); };
  return share(bytes.value, 3) + share(bytes.gradient, 2) + share(bytes.optimizer, 1);
}

class ZeroMemory : public testing::TestWithParam<Setting> {
 protected:
  static PlannedProgram make(int stage, const std::string& devices, const Settings& more) {
    Settings set = GetParam().set;
    set.insert(set.end(), more.begin(), more.end());
    set.push_back("search.zero=" + std::to_string(stage));
    set.emplace_back("search.batch_axes=all");
    return planned_program("mlp_tiny", devices, set).value();
  }

  static std::int64_t planned_bytes(const Plan& plan) {
    std::int64_t sum = 0;
    for (const PlannedVariable& variable : plan.variables) sum += variable.state_bytes + variable.gradient_bytes;
    return sum;
  }

  static std::int64_t states(const MemorySplit& split) {
    return split[MemoryKind::parameter] + split[MemoryKind::gradient] + split[MemoryKind::optimizer];
  }

  // Before the next microbatch, or the update: every gradient is there, and no activation.
  static const MemorySplit& end_of_first_backward(const Program& program, const MemoryProfile& profile) {
    const auto last = std::find_if(profile.curve.rbegin(), profile.curve.rend(), [&](const MemoryProfile::Point& point) {
      return point.at.microbatch == 0 && program.instructions[point.at.instruction].phase == Phase::backward;
    });
    return last->held;
  }

  // What the last reductions of the backward still read then: it is freed among the updates.
  static std::int64_t read_beyond_backward(const Program& program) {
    std::set<ProgramValueId> read;
    std::int64_t bytes = 0;
    for (const Instruction& instruction : program.instructions) {
      for (const ProgramOperand& operand : instruction.operands) {
        if (instruction.phase == Phase::backward && instruction.stream == Stream::communication) read.insert(operand.value);
        if (instruction.phase == Phase::update && instruction.kind() == InstructionKind::free && read.contains(operand.value)) bytes += program.local_bytes(operand.value);
      }
    }
    return bytes;
  }
};

TEST_P(ZeroMemory, IsThePublishedFormula) {
  for (const char* devices : {"4", "8"}) {
    const std::int64_t n = std::stoll(devices);
    for (int stage = 0; stage <= 3; ++stage) {
      SCOPED_TRACE("stage " + std::to_string(stage) + " on " + devices);
      const PlannedProgram planned = make(stage, devices, {});
      const std::int64_t expected = held_bytes(GetParam().bytes, stage, parameters_of(planned.plan), n);
      EXPECT_EQ(planned_bytes(planned.plan), expected);
      const MemoryProfile profile = memory_profile(planned.program);
      EXPECT_EQ(states(end_of_first_backward(planned.program, profile)) - read_beyond_backward(planned.program), expected);
      // Activations are two samples at most, so that states are what the peak is made of.
      EXPECT_GE(profile.peak_bytes, expected);
      const std::vector<std::int64_t> curve = memory_curve(planned.program);
      EXPECT_EQ(*std::max_element(curve.begin(), curve.end()), profile.peak_bytes);
    }
  }
}

// Nor do microbatches change it, kept or reduced.
TEST_P(ZeroMemory, IsTheSameWithMicrobatches) {
  for (const char* gradients : {"train.gradients=kept", "train.gradients=reduced"}) {
    for (int stage = 0; stage <= 3; ++stage) {
      SCOPED_TRACE(std::string(gradients) + ", stage " + std::to_string(stage));
      const PlannedProgram planned = make(stage, "4", {"train.microbatches=2", gradients});
      const std::int64_t expected = held_bytes(GetParam().bytes, stage, parameters_of(planned.plan), 4);
      EXPECT_EQ(planned_bytes(planned.plan), expected);
      EXPECT_EQ(states(end_of_first_backward(planned.program, memory_profile(planned.program))), expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, ZeroMemory,
    testing::Values(Setting{"fp32_adamw", {}, {4, 4, 8}}, Setting{"fp32_adam", {"train.optimizer=adam"}, {4, 4, 8}},
                    Setting{"fp32_momentum", {"train.optimizer=momentum"}, {4, 4, 4}}, Setting{"fp32_sgd", {"train.optimizer=sgd"}, {4, 4, 0}},
                    Setting{"bf16_adamw", {"train.dtype=bf16"}, {2, 2, 12}},
                    Setting{"bf16_momentum", {"train.dtype=bf16", "train.optimizer=momentum"}, {2, 2, 8}},
                    Setting{"bf16_sgd", {"train.dtype=bf16", "train.optimizer=sgd"}, {2, 2, 4}},
                    Setting{"bf16_without_master", {"train.dtype=bf16", "train.master_dtype=bf16"}, {2, 2, 4}},
                    Setting{"bf16_reduced_in_fp32", {"train.dtype=bf16", "train.reduce_dtype=fp32"}, {2, 4, 12}}),
    [](const auto& info) { return std::string(info.param.name); });

// --- collectives ---

struct Counts {
  std::int64_t gathers = 0, reduce_scatters = 0, all_reduces = 0, others = 0;
  bool operator==(const Counts&) const = default;
};

void PrintTo(const Counts& counts, std::ostream* out) {
  *out << counts.gathers << " all-gathers, " << counts.reduce_scatters << " reduce-scatters, " << counts.all_reduces
       << " all-reduces, " << counts.others << " others";
}

// By parameter. Slices are no communication.
std::map<std::string, Counts> count_collectives(const Program& program) {
  std::map<std::string, Counts> counts;
  for (const ProgramParameter& parameter : program.parameters) counts[parameter.name];
  for (const Instruction& instruction : program.instructions) {
    const Move* move = instruction.move();
    if (move == nullptr || instruction.parameter == kNoId) continue;
    Counts& here = counts[program.parameters[instruction.parameter].name];
    const std::int64_t ran = times(program, instruction);
    switch (move->kind) {
      case MoveKind::all_gather: here.gathers += ran; break;
      case MoveKind::reduce_scatter: here.reduce_scatters += ran; break;
      case MoveKind::all_reduce: here.all_reduces += ran; break;
      case MoveKind::slice:
      case MoveKind::keep_one: break;
      default: here.others += ran;
    }
  }
  return counts;
}

// Those that a backward reads, of mlp_tiny; the weight of the first layer is not among them, whose input has no gradient.
const std::vector<std::string> kReadInBackward = {"second.weight", "norm.weight", "last.weight"};

class ZeroCollectives : public testing::TestWithParam<std::int64_t> {
 protected:
  static std::map<std::string, Counts> count(const Settings& more) {
    Settings set = {"search.batch_axes=all", "train.microbatches=" + std::to_string(GetParam())};
    set.insert(set.end(), more.begin(), more.end());
    return count_collectives(planned_program("mlp_tiny", "4", set).value().program);
  }

  static void expect_each(const Settings& settings, const Counts& expected) {
    for (const auto& [name, counts] : count(settings)) EXPECT_EQ(counts, expected) << name << ", " << joined(settings);
  }
};

TEST_P(ZeroCollectives, OfDataParallelism) {
  expect_each({"search.zero=0"}, {.all_reduces = 1});
  expect_each({"search.zero=0", "train.gradients=reduced"}, {.all_reduces = GetParam()});
}

TEST_P(ZeroCollectives, OfStage1AreOneReduceScatterAndOneGatherAStep) {
  expect_each({"search.zero=1"}, {.gathers = 1, .reduce_scatters = 1});
  // Reduced after each microbatch they are whole, of which the update takes its part.
  if (GetParam() > 1) expect_each({"search.zero=1", "train.gradients=reduced"}, {.gathers = 1, .all_reduces = GetParam()});
}

TEST_P(ZeroCollectives, OfStage2AreAReduceScatterEachMicrobatchAndOneGatherAStep) {
  for (const char* gradients : {"train.gradients=kept", "train.gradients=reduced"}) {
    expect_each({"search.zero=2", gradients}, {.gathers = 1, .reduce_scatters = GetParam()});
  }
}

TEST_P(ZeroCollectives, OfStage3GatherOnceOrTwiceAMicrobatch) {
  const std::int64_t m = GetParam();
  expect_each({"search.zero=3", "search.regather=never"}, {.gathers = m, .reduce_scatters = m});
  for (const auto& [name, counts] : count({"search.zero=3", "search.regather=always"})) {
    const bool twice = std::find(kReadInBackward.begin(), kReadInBackward.end(), name) != kReadInBackward.end();
    EXPECT_EQ(counts, (Counts{.gathers = twice ? 2 * m : m, .reduce_scatters = m})) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Microbatches, ZeroCollectives, testing::Values(1, 2, 4), [](const auto& info) { return std::to_string(info.param); });

// --- seconds ---

double simulated(PlannedProgram& planned) {
  const auto backend = planned.host.create<Backend>("backend", "simulate").value();
  return backend->run({planned.program, *planned.tools.ops, planned.tools.profile, nullptr, {}, nullptr, {}})->step_seconds;
}

// What the search counts for gathers, reductions, sums and casts is what the program takes: within 6 %, and mostly 3.
TEST(ZeroSeconds, AreThoseOfTheProgram) {
  for (const char* stage : {"search.zero=0", "search.zero=1", "search.zero=2", "search.zero=3"}) {
    for (const Settings& settings : {Settings{"train.microbatches=1"}, Settings{"train.microbatches=4"},
                                     Settings{"train.microbatches=4", "train.gradients=reduced", "train.reduce_dtype=fp32"},
                                     Settings{"train.microbatches=4", "search.regather=always", "search.prefetch=never"}}) {
      SCOPED_TRACE(std::string(stage) + ", " + joined(settings));
      host::PlanOptions options;
      options.model = example("gpt2_small");
      options.cluster = cluster("h100x8");
      options.mesh = "8";
      options.set = settings;
      options.set.insert(options.set.end(), {stage, "search.batch_axes=all", "train.dtype=bf16", "train.cuda_graphs=true", "model.batch=64"});
      PlannedProgram planned = program_of(*plan(options)->plan).value();
      const double seconds = simulated(planned);
      EXPECT_NEAR(planned.plan.objective_seconds, seconds, 0.06 * seconds);
      EXPECT_NEAR(planned.plan.step_seconds, seconds, 0.06 * seconds);
    }
  }
}

// --- prefetch ---

// How many instructions stand before a gather that are none, and from there to the first that takes time and computes with what it gathered.
struct Gather {
  std::uint32_t parameter = 0;
  std::size_t behind = 0, ahead = 0;
};

bool takes_time(const Instruction& instruction) {
  return instruction.kind() == InstructionKind::compute && !instruction.is_alias() && instruction.parameter == kNoId;
}

std::vector<Gather> gathers_in(const Program& program, Phase phase) {
  std::map<ProgramValueId, std::size_t> unused;
  std::vector<Gather> found;
  std::vector<std::size_t> worked;  // by gather: how many took time before it
  std::size_t others = 0, works = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase != phase || instruction.kind() == InstructionKind::free) continue;
    const Move* move = instruction.move();
    if (move != nullptr && move->kind == MoveKind::all_gather && instruction.stream == Stream::communication) {
      unused[instruction.results[0]] = found.size();
      found.push_back({instruction.parameter, others, 0});
      worked.push_back(works);
      continue;
    }
    for (const ProgramOperand& operand : instruction.operands) {
      const auto gather = unused.find(operand.value);
      if (gather == unused.end()) continue;
      found[gather->second].ahead = works - worked[gather->second];
      unused.erase(gather);
    }
    ++others;
    works += takes_time(instruction) ? 1 : 0;
  }
  return found;
}

// By unit, in the order of their turns, where its gathers stand, which is one place. A unit is a block, no tiny one's being larger than a bucket; what
// stands before the blocks, and behind them, are two (decision 039).
std::vector<std::size_t> places(const Program& program, const std::vector<Gather>& gathers) {
  std::vector<std::uint32_t> unit_of(program.parameters.size());
  for (std::size_t i = 1; i < unit_of.size(); ++i) {
    unit_of[i] = unit_of[i - 1] + (block_of(program.parameters[i].name) == block_of(program.parameters[i - 1].name) ? 0 : 1);
  }
  std::vector<std::uint32_t> turns;
  std::vector<std::size_t> places;
  for (const Gather& gather : gathers) {
    const std::uint32_t unit = unit_of[gather.parameter];
    const auto turn = std::find(turns.begin(), turns.end(), unit);
    if (turn != turns.end()) {
      EXPECT_EQ(gather.behind, places[static_cast<std::size_t>(turn - turns.begin())]) << program.parameters[gather.parameter].name;
      continue;
    }
    turns.push_back(unit);
    places.push_back(gather.behind);
  }
  return places;
}

PlannedProgram not_ahead(Plan plan) {
  for (PlannedVariable& variable : plan.variables) {
    if (auto* parameter = std::get_if<PlannedParameter>(&variable.choice)) parameter->prefetch = false;
  }
  return program_of(std::move(plan)).value();
}

TEST(Prefetch, GathersEachUnitWhereTheOneBeforeIsUsed) {
  for (const char* model : {"gpt2_tiny", "llama_tiny"}) {
    SCOPED_TRACE(model);
    const Settings settings = {"search.zero=3", "search.regather=always", "search.batch_axes=all", "train.microbatches=2", "search.prefetch=always"};
    const PlannedProgram ahead = planned_program(model, "4", settings).value();
    const PlannedProgram beside = not_ahead(ahead.plan);
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      std::vector<std::size_t> used = places(beside.program, gathers_in(beside.program, phase));
      const std::vector<std::size_t> gathered = places(ahead.program, gathers_in(ahead.program, phase));
      ASSERT_GT(used.size(), 2U);
      used.insert(used.begin(), 0);
      used.pop_back();
      EXPECT_EQ(gathered, used);
    }
  }
}

TEST(Prefetch, LeftOutUnitsAreGatheredWhereTheyAreUsed) {
  const PlannedProgram beside =
      planned_program("vit_tiny", "4", {"search.zero=3", "search.regather=always", "search.batch_axes=all", "search.prefetch=never"}).value();
  std::map<std::size_t, std::size_t> least;  // by place
  for (const Gather& gather : gathers_in(beside.program, Phase::forward)) {
    const auto [known, inserted] = least.try_emplace(gather.behind, gather.ahead);
    if (!inserted) known->second = std::min(known->second, gather.ahead);
  }
  ASSERT_GT(least.size(), 2U);
  for (const auto& [place, ahead] : least) EXPECT_EQ(ahead, 0U);
}

// A block of GPT-2 small is 28 MB in float32, and 14 in bfloat16; a bucket is 25.
TEST(Prefetch, CutsUnitsWhereABucketIsFull) {
  const auto count = [](const std::string& dtype) {
    host::PlanOptions options;
    options.model = example("gpt2_small");
    options.cluster = cluster("h100x8");
    options.mesh = "8";
    options.set = {"search.zero=3", "search.batch_axes=all", "train.dtype=" + dtype};
    const PlannedProgram planned = program_of(*plan(options)->plan).value();
    std::set<std::size_t> places;
    for (const Gather& gather : gathers_in(planned.program, Phase::forward)) places.insert(gather.behind);
    return places.size();
  };
  EXPECT_EQ(count("exported"), count("bf16") + 12);
}

class PrefetchPays : public testing::TestWithParam<const char*> {};

TEST_P(PrefetchPays, AndIsNeverSlower) {
  for (const char* regather : {"always", "never"}) {
    for (const char* microbatches : {"1", "2"}) {
      const Settings settings = {"search.zero=3", "search.batch_axes=all", "train.cuda_graphs=true", std::string("search.regather=") + regather,
                                 std::string("train.microbatches=") + microbatches};
      SCOPED_TRACE(joined(settings));
      PlannedProgram ahead = planned_program(GetParam(), "4", settings).value();
      PlannedProgram beside = not_ahead(ahead.plan);
      EXPECT_LT(simulated(ahead), simulated(beside));
      EXPECT_EQ(sent_bytes(ahead.program), sent_bytes(beside.program));
      Settings off = settings;
      off.emplace_back("search.prefetch=never");
      const Plan planned_off = planned_program(GetParam(), "4", off).value().plan;
      EXPECT_LT(ahead.plan.objective_seconds, planned_off.objective_seconds);
      EXPECT_LT(ahead.plan.step_seconds, planned_off.step_seconds);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PrefetchPays, testing::Values("bert_tiny", "gpt2_tiny", "llama_tiny", "vit_tiny"),
                         [](const auto& info) { return std::string(info.param); });

// Gathered when its unit is computed with, a copy lives one unit less: what the search leaves out where it would not fit.
class PrefetchIsChosen : public testing::TestWithParam<const char*> {
 protected:
  static Result<PlannedProgram> plan_with(const Settings& more) {
    Settings settings = {"search.zero=3", "search.batch_axes=all", "search.regather=always"};
    settings.insert(settings.end(), more.begin(), more.end());
    return planned_program(GetParam(), "4", settings);
  }

  static std::int64_t prefetched(const Plan& plan) {
    return std::count_if(plan.variables.begin(), plan.variables.end(), [](const PlannedVariable& variable) { return variable.parameter() != nullptr && variable.parameter()->prefetch; });
  }

  static std::int64_t gathered(const Plan& plan) {
    return std::count_if(plan.variables.begin(), plan.variables.end(),
                         [](const PlannedVariable& variable) { return variable.parameter() != nullptr && variable.parameter()->zero == ZeroStage::value; });
  }
};

TEST_P(PrefetchIsChosen, ForEveryParameterWhereItFits) {
  const Plan free = plan_with({}).value().plan;
  EXPECT_EQ(prefetched(free), gathered(free));
  EXPECT_EQ(free.objective_seconds, plan_with({"search.prefetch=always"}).value().plan.objective_seconds);
}

TEST_P(PrefetchIsChosen, ForAllButWhatWouldNotFit) {
  const Plan free = plan_with({}).value().plan;
  const Plan never = plan_with({"search.prefetch=never"}).value().plan;
  EXPECT_EQ(prefetched(never), 0);
  ASSERT_LT(never.peak_bytes, free.peak_bytes);
  const std::string budget = "search.memory_budget=" + std::to_string(free.peak_bytes - 1);
  const Result<PlannedProgram> always = plan_with({budget, "search.prefetch=always"});
  ASSERT_FALSE(always);
  EXPECT_EQ(always.error().code, ErrorCode::infeasible);
  PlannedProgram fitted = plan_with({budget}).value();
  EXPECT_LT(fitted.plan.peak_bytes, free.peak_bytes);
  EXPECT_GT(prefetched(fitted.plan), 0);
  EXPECT_LT(prefetched(fitted.plan), gathered(fitted.plan));
  EXPECT_GT(fitted.plan.objective_seconds, free.objective_seconds);
  EXPECT_LT(fitted.plan.objective_seconds, never.objective_seconds);
  expect_verifies(fitted);
}

using LeastWithPrefetch = PrefetchIsChosen;

// What fits if nothing is prefetched is found without being told so, and is faster: but for a few bytes, since parameters that are a small
// part of their unit are gathered with the rest (decision 039).
TEST_P(LeastWithPrefetch, IsWhatItIsWithoutAndFaster) {
  const Plan never = plan_with({"search.prefetch=never"}).value().plan;
  const std::int64_t budget = never.peak_bytes + never.peak_bytes / 20;
  const Result<PlannedProgram> least = plan_with({"search.memory_budget=" + std::to_string(budget)});
  ASSERT_TRUE(least) << least.error().message;
  EXPECT_LE(least->plan.peak_bytes, budget);
  EXPECT_GT(prefetched(least->plan), 0);
  EXPECT_LT(least->plan.objective_seconds, never.objective_seconds);
}

INSTANTIATE_TEST_SUITE_P(Models, LeastWithPrefetch, testing::Values("bert_tiny", "llama_tiny", "t5_tiny", "vit_tiny"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Models, PrefetchIsChosen, testing::Values("bert_tiny", "llama_tiny", "t5_tiny", "vit_tiny"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace meshwright::test
