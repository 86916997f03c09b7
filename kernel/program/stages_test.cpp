#include "meshwright/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "meshwright/pipeline_step.h"
#include "program/split_backward.h"

namespace meshwright {
namespace {

// A stage of one device that hands on values by name.
struct Stage {
  Program program;
  std::uint32_t number = 0;

  ProgramValueId value(const std::string& name, const std::string& layout = "", std::vector<std::int64_t> shape = {8}) {
    const AtomShape atoms = whole_dimensions(shape);
    program.values.push_back({name, {{DType::float32, std::move(shape)}, atoms, layout.empty() ? Layout(program.mesh.rank()) : parse_layout(layout, atoms, program.mesh.rank()).value()}});
    return static_cast<ProgramValueId>(program.values.size() - 1);
  }

  Instruction& add(Action action, Phase phase) {
    Instruction& instruction = program.instructions.emplace_back();
    instruction.action = std::move(action);
    instruction.phase = phase;
    return instruction;
  }

  void send(ProgramValueId id, bool gradient, std::uint32_t to, Phase phase) {
    Instruction& made = add(Send{{program.values[id].name, gradient, number, to}}, phase);
    made.operands = {{"", id, program.type(id).layout}};
    made.stream = Stream::communication;
  }

  ProgramValueId receive(const std::string& name, bool gradient, std::uint32_t from, Phase phase) {
    const ProgramValueId id = value(name);
    add(Receive{{name, gradient, from, number}}, phase).results = {id};
    return id;
  }

  // A kernel that takes so many ticks (kOneTick).
  void compute(std::int64_t ticks, Phase phase) {
    const ProgramValueId made = value("t" + std::to_string(program.values.size()), "", {ticks});
    add(Compute{.op = "work", .local = true}, phase).results = {made};
  }
};

// x from stage 0 to stage 1, its gradient back.
std::vector<Program> pair_of_stages(const std::string& order_of_first, const std::string& order_of_second, std::int64_t microbatches = 2) {
  Stage first{{}, 0}, second{{}, 1};
  first.compute(10, Phase::forward);
  first.send(first.value("x"), false, 1, Phase::forward);
  first.receive("grad", true, 1, Phase::backward);
  first.program.instructions.back().action = Receive{{"x", true, 1, 0}};
  first.compute(20, Phase::backward);
  second.receive("x", false, 0, Phase::forward);
  second.compute(10, Phase::forward);
  second.compute(20, Phase::backward);
  second.send(0, true, 0, Phase::backward);
  first.program.order = parse_step_order(order_of_first, microbatches).value();
  second.program.order = parse_step_order(order_of_second, microbatches).value();
  return {std::move(first.program), std::move(second.program)};
}

std::vector<Program> good() { return pair_of_stages("F0 F1 B0 B1", "F0 B0 F1 B1"); }

std::string refusal(const std::function<void(std::vector<Program>&)>& spoil) {
  std::vector<Program> programs = good();
  spoil(programs);
  const Status status = validate_stages(programs);
  return status ? "" : status.error().message;
}

TEST(Stages, FitTogether) { EXPECT_TRUE(validate_stages(good())); }

TEST(Stages, AMessageThatIsLeftOutIsNamed) {
  EXPECT_EQ(refusal([](auto& programs) { programs[0].instructions.erase(programs[0].instructions.begin() + 1); }), "'x' from stage 0 to stage 1 is received, but never sent");
  EXPECT_EQ(refusal([](auto& programs) { programs[0].instructions.erase(programs[0].instructions.begin() + 2); }),
            "the gradient of 'x' from stage 1 to stage 0 is sent, but never received");
}

TEST(Stages, CrossedMessagesAreNamed) {
  EXPECT_EQ(refusal([](auto& programs) { std::get<Send>(programs[0].instructions[1].action).message.from = 1; }), "stage 0 sends 'x' from stage 1 to stage 1");
  EXPECT_EQ(refusal([](auto& programs) { programs[0].instructions.push_back(programs[0].instructions[1]); }), "'x' from stage 0 to stage 1 is sent twice");
  EXPECT_EQ(refusal([](auto& programs) { programs[0].values[1].type.type.shape = {4}; }), "'x' from stage 0 to stage 1 is sent as float32[4], and received as float32[8]");
  EXPECT_EQ(refusal([](auto& programs) { programs[0].instructions[1].phase = Phase::backward; }), "'x' from stage 0 to stage 1 is sent in the backward, and received in the forward");
  EXPECT_EQ(refusal([](auto& programs) { programs[1].order = parse_step_order("F0 B0", 1).value(); }), "stage 1 has 1 microbatches, and stage 0 2");
}

TEST(Stages, AValueThatIsPartialCannotCross) {
  Stage stage;
  stage.program.mesh.axes.push_back({2, 0, 1e-9, ""});
  const ProgramValueId x = stage.value("x", "R+P0");
  stage.program.inputs.push_back({SourceKind::user_input, 0, x, 0});
  stage.send(x, false, 1, Phase::forward);
  const Status status = validate(stage.program);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("'x' is partial, R+P0, and cannot go to another stage"), std::string::npos) << status.error().message;
}

TEST(Stages, NothingIsReceivedBeforeItWasSent) {
  const std::vector<Program> programs = good();
  const auto places = joint_order(programs).value();
  std::map<std::pair<Message, std::int64_t>, std::size_t> sent;
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t stage = 0; stage < programs.size(); ++stage) {
      const std::vector<Occurrence> steps = occurrences(programs[stage]);
      ASSERT_EQ(places[stage].size(), steps.size());
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const Instruction& instruction = programs[stage].instructions[steps[i].instruction];
        if (i > 0) {
          EXPECT_LT(places[stage][i - 1], places[stage][i]);
        }
        if (instruction.message() == nullptr) continue;
        const auto key = std::pair(*instruction.message(), steps[i].microbatch);
        if (instruction.kind() == InstructionKind::send) {
          sent[key] = places[stage][i];
        } else if (pass == 1) {
          EXPECT_LT(sent.at(key), places[stage][i]);
        }
      }
    }
  }
}

TEST(Stages, ThatWaitForEachOtherAreNamed) {
  const auto order = joint_order(pair_of_stages("F0 B0 F1 B1", "F0 F1 B0 B1"));
  ASSERT_FALSE(order);
  EXPECT_EQ(order.error().message,
            "the stages wait for each other: nobody can send the gradient of 'x' from stage 1 to stage 0 of microbatch 0; 'x' from stage 0 to stage 1 of microbatch 1");
}

// --- stages that share devices ---

const GroupOrders kShared = {{{0, {Phase::forward, 0}}, {1, {Phase::forward, 0}}, {0, {Phase::forward, 1}}, {1, {Phase::backward, 0}}, {0, {Phase::backward, 0}}, {1, {Phase::forward, 1}}, {1, {Phase::backward, 1}}, {0, {Phase::backward, 1}}}};

TEST(Stages, ThatShareDevicesTakeTurns) {
  const std::vector<Program> programs = good();
  const JointOrder places = joint_order(programs, kShared).value();
  std::vector<std::pair<std::size_t, StageEvent>> turns;
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    const std::vector<Occurrence> steps = occurrences(programs[stage]);
    for (std::size_t i = 0; i < steps.size(); ++i) turns.push_back({places[stage][i], {stage, {programs[stage].instructions[steps[i].instruction].phase, steps[i].microbatch}}});
  }
  std::ranges::sort(turns, {}, &std::pair<std::size_t, StageEvent>::first);
  std::vector<StageEvent> events;
  for (const auto& [place, event] : turns) {
    if (events.empty() || events.back() != event) events.push_back(event);
  }
  EXPECT_EQ(events, kShared[0]);
}

TEST(Stages, OrdersThatAreNotThoseOfTheProgramsAreNamed) {
  const auto refused = [](const std::function<void(std::vector<StageEvent>&)>& spoil) {
    GroupOrders orders = kShared;
    spoil(orders[0]);
    const auto order = joint_order(good(), orders);
    return order ? "" : order.error().message;
  };
  EXPECT_EQ(refused([](auto& order) { order.erase(order.begin()); }), "devices are to run the forward of microbatch 1 of stage 0 where that stage's program has the forward of microbatch 0");
  EXPECT_EQ(refused([](auto& order) { order.pop_back(); }), "no device runs the backward of microbatch 1 of stage 0");
  EXPECT_EQ(refused([](auto& order) { order.push_back(order.back()); }), "devices are to run the backward of microbatch 1 of stage 0 where that stage's program has the update");
  EXPECT_EQ(refused([](auto& order) { std::swap(order[0], order[1]); }), "the stages wait for each other: nobody can send 'x' from stage 0 to stage 1 of microbatch 0");
  EXPECT_EQ(refused([](auto& order) { std::erase_if(order, [](const StageEvent& event) { return event.stage == 1; }); }), "stage 1 is on no devices");
}

TEST(Stages, ThatShareDevicesHoldTheSumInTurn) {
  std::vector<Program> programs = good();
  for (Program& program : programs) {
    Instruction& free = program.instructions.emplace_back();
    free.action = Free{};
    free.phase = Phase::backward;
    free.operands = {{"", 0, {}}};
  }
  const JointOrder places = joint_order(programs, kShared).value();
  std::vector<std::vector<std::int64_t>> curves;
  std::int64_t most = 0;
  for (const Program& program : programs) curves.push_back(memory_curve(program));
  const std::int64_t peak = peaks_of_groups(programs, places, std::vector<std::uint32_t>{0, 0})[0];
  for (std::size_t place = 0; place < places[0].size() + places[1].size(); ++place) {
    std::int64_t held = 0;
    for (std::size_t stage = 0; stage < 2; ++stage) {
      const auto reached = std::ranges::upper_bound(places[stage], place) - places[stage].begin();
      held += reached == 0 ? bytes_at_start(programs[stage]) : curves[stage][static_cast<std::size_t>(reached - 1)];
    }
    most = std::max(most, held);
  }
  EXPECT_EQ(peak, most);
  EXPECT_LT(peak, std::ranges::max(curves[0]) + std::ranges::max(curves[1]));
  EXPECT_EQ(peaks_of_groups(programs, joint_order(programs).value(), std::vector<std::uint32_t>{0, 1}), (std::vector<std::int64_t>{std::ranges::max(curves[0]), std::ranges::max(curves[1])}));
}

// --- shared weights ---

// A stage with a parameter whose gradient is at hand.
Stage stage_with_weight(std::uint32_t number) {
  Stage stage{{}, number};
  const ProgramValueId weight = stage.value("w"), gradient = stage.value("gradient of w");
  stage.program.values[weight].of_step = true;
  stage.program.parameters.push_back({"w", 0, weight, gradient, Layout(0)});
  Instruction& made = stage.add(Compute{.op = "work", .local = true}, Phase::backward);
  made.results = {gradient};
  Instruction& update = stage.add(Update{}, Phase::update);
  update.name = "w";
  update.parameter = 0;
  update.operands = {{"", gradient, Layout(0)}};
  return stage;
}

TEST(Stages, GradientsOfSharedWeightsMeetInTheFirstStage) {
  std::vector<Program> programs;
  for (const std::uint32_t stage : {0U, 1U, 2U}) {
    Stage made = stage_with_weight(stage);
    exchange_shared_gradients({stage, {}, {{"w", {0, 1, 2}}}}, made.program);
    programs.push_back(std::move(made.program));
  }
  ASSERT_TRUE(joint_order(programs));
  EXPECT_EQ(to_string(programs[0]).substr(to_string(programs[0]).find("update:")),
            "update:\n"
            "  gradient of w of all stages float32[8] R = receive(grad w) from stage 1\n"
            "  gradient of w of all stages'1 float32[8] R = aten.add.Tensor(self=gradient of w, other=gradient of w of all stages)\n"
            "  gradient of w of all stages'2 float32[8] R = receive(grad w) from stage 2\n"
            "  gradient of w of all stages'3 float32[8] R = aten.add.Tensor(self=gradient of w of all stages'1, other=gradient of w of all stages'2)\n"
            "  send(grad w) to stage 1\n"
            "  send(grad w) to stage 2\n"
            "  w = update(gradient of w of all stages'3)\n");
  for (const Program& program : programs) EXPECT_EQ(program.instructions.back().operands[0].value, program.parameters[0].gradient);
}

// --- a step of all stages ---

constexpr double kOneTick = 1e-12;

// Each element of a result takes a tick.
class WorkFamily final : public OpFamily {
  Result<Rule> do_rule(const OpCall& call) const override { return replicated_rule(call.operands, call.results); }
  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({static_cast<double>(call.results[0].elements()) / static_cast<double>(rule.factors.empty() ? 1 : call.results[0].elements()), rule.all_factors()});
    return cost;
  }
};

class WorkOps final : public OpTable {
 public:
  const OpFamily* find(std::string_view) const override { return &family_; }

 private:
  WorkFamily family_;
};

CostProfile slow_profile(double travel_ticks) {
  CostProfile profile;
  profile.device.vector_flops_per_second = 1 / kOneTick;
  profile.device.memory_bytes_per_second = 1e30;
  profile.stage_latency_seconds = travel_ticks * kOneTick;
  return profile;
}

TEST(PipelineStep, IsThatOfTheScheduleWhereNothingTravels) {
  const WorkOps ops;
  const PipelineStep step = simulate_stages(pair_of_stages("F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2", 3), ops, std::vector(2, slow_profile(0))).value();
  // 1F1B of two stages: (m + p - 1) forwards and backwards.
  EXPECT_DOUBLE_EQ(step.step_seconds, (3 + 2 - 1) * 30 * kOneTick);
  EXPECT_DOUBLE_EQ(step.bubble, 0.25);
  EXPECT_DOUBLE_EQ(step.start, 0.25);
  EXPECT_DOUBLE_EQ(step.communication, 0);
  EXPECT_EQ(step.sent[0].size(), 3U);
}

TEST(PipelineStep, OfStagesThatShareDevicesHasThemInTurnAndNothingTravels) {
  const WorkOps ops;
  const PipelineStep step = simulate_stages(good(), ops, std::vector(2, slow_profile(5)), kShared).value();
  ASSERT_EQ(step.spans.size(), 1U);
  EXPECT_EQ(step.spans[0].size(), 8U + 2);  // and both updates
  EXPECT_DOUBLE_EQ(step.step_seconds, 2 * 60 * kOneTick);
  EXPECT_DOUBLE_EQ(step.bubble, 0);
  EXPECT_DOUBLE_EQ(step.busy_seconds[0], 60 * kOneTick);
}

TEST(PipelineStep, HasLinksThatCarryOneMessageAfterTheOther) {
  const WorkOps ops;
  std::vector<Program> programs = good();
  const auto double_message = [](Program& program, std::size_t at) {
    Instruction second = program.instructions[at];
    std::visit([](auto& action) { if constexpr (requires { action.message; }) action.message.value = "y"; }, second.action);
    if (!second.results.empty()) {
      program.values.push_back(program.values[second.results[0]]);
      second.results[0] = static_cast<ProgramValueId>(program.values.size() - 1);
    }
    program.instructions.insert(program.instructions.begin() + static_cast<std::ptrdiff_t>(at), second);
  };
  double_message(programs[0], 1);
  double_message(programs[1], 0);
  CostProfile profile = slow_profile(5);
  profile.stage_seconds_per_byte = kOneTick;
  const PipelineStep step = simulate_stages(programs, ops, std::vector(2, profile)).value();
  constexpr Ticks kBusy = 8 * 4;  // of eight numbers
  // Both wait for each other's way, and the second microbatch's for the first one's; latencies pass at once.
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(step.sent[0][i].start, 10 + static_cast<Ticks>(i) * kBusy);
    EXPECT_EQ(step.sent[0][i].end, step.sent[0][i].start + 5 + kBusy);
  }
  EXPECT_EQ(step.spans[1][0].start, 10 + 2 * kBusy + 5);
}

// Of what stage 1 computes backward it sends the gradient of x, which takes 8 ticks of the 28; the other 20 are of weights.
Program stage_in_parts(const std::string& order) {
  Stage stage{{}, 1};
  stage.receive("x", false, 0, Phase::forward);
  stage.compute(10, Phase::forward);
  stage.compute(20, Phase::backward);
  stage.compute(8, Phase::backward);
  stage.add(Send{{"x", true, 1, 0}}, Phase::backward).operands = {{"", stage.program.instructions[3].results[0], Layout(0)}};
  stage.program.instructions.back().stream = Stream::communication;
  stage.program.order = parse_step_order(order, 3).value();
  split_backward(stage.program);
  return std::move(stage.program);
}

TEST(PipelineStep, DoesNotWaitForGradientsOfWeights) {
  const WorkOps ops;
  std::vector<Program> programs = pair_of_stages("F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2", 3);
  programs[1] = stage_in_parts("F0 I0 F1 I1 W0 F2 W1 I2 W2");
  const std::vector<Instruction>& instructions = programs[1].instructions;
  std::vector<Phase> phases;
  for (const Instruction& instruction : instructions) phases.push_back(instruction.phase);
  EXPECT_EQ(phases, (std::vector{Phase::forward, Phase::forward, Phase::input_gradient, Phase::input_gradient, Phase::weight_gradient}));
  EXPECT_EQ(instructions[3].kind(), InstructionKind::send);
  const PipelineStep step = simulate_stages(programs, ops, std::vector(2, slow_profile(0))).value();
  EXPECT_EQ(step.spans[0][2].event, (StepEvent{Phase::backward, 0}));
  EXPECT_EQ(step.spans[0][2].start, 10 + 10 + 8);
  EXPECT_EQ(step.spans[1][4].event, (StepEvent{Phase::weight_gradient, 0}));
  EXPECT_EQ(step.spans[1][4].start, 10 + 2 * (10 + 8));
  EXPECT_DOUBLE_EQ(step.busy_seconds[1], 3 * 38 * kOneTick);
}

// Behind the backward of stage 1 its communication stream reduces for 100 ticks, which only a free waits for.
TEST(PipelineStep, DoesNotWaitForReductionsOfTheStageBehind) {
  const WorkOps ops;
  std::vector<Program> programs = pair_of_stages("F0 F1 B0 B1", "F0 B0 F1 B1");
  Stage second{std::move(programs[1]), 1};
  second.compute(100, Phase::backward);
  second.program.instructions.back().stream = Stream::communication;
  second.program.instructions.back().when = When::last;
  const ProgramValueId reduced = second.program.instructions.back().results[0];
  Instruction& release = second.add(Free{}, Phase::backward);
  release.when = When::last;
  release.operands = {{"", reduced, Layout(0)}};
  release.waits = {reduced};
  programs[1] = std::move(second.program);
  const PipelineStep step = simulate_stages(programs, ops, std::vector(2, slow_profile(0))).value();
  const StageSpan &last = step.spans[1][3], &before = step.spans[0][3];
  EXPECT_EQ(last.event, (StepEvent{Phase::backward, 1}));
  EXPECT_EQ(last.end, 10 + 2 * 30);
  EXPECT_EQ(before.start, last.end);
  EXPECT_EQ(step.spans[1][4].end, last.end + 100);  // the update waits
}

TEST(PipelineStep, WaitsForWhatTravels) {
  const WorkOps ops;
  const PipelineStep step = simulate_stages(good(), ops, std::vector(2, slow_profile(5))).value();
  // F0, travel, F0, B0, travel, B0: the second microbatch is behind the first.
  EXPECT_EQ(step.spans[1][0].start, 15);
  EXPECT_EQ(step.spans[0][2].start, 15 + 30 + 5);
  EXPECT_GT(step.communication, 0);
  EXPECT_NEAR(step.bubble, step.imbalance + step.communication + step.start, 1e-12);
}

}  // namespace
}  // namespace meshwright
