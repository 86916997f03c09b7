#include "meshwright/memory_profile.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace meshwright {
namespace {

// Programs by hand, in float32, on a mesh of two devices.
struct Builder {
  Program program;

  Builder() { program.mesh.axes.push_back({2, 0, 1e-9, ""}); }

  ProgramValueId value(const std::string& name, std::vector<std::int64_t> shape, const std::string& layout = "") {
    const AtomShape atoms = whole_dimensions(shape);
    const Layout parsed = layout.empty() ? Layout(1) : parse_layout(layout, atoms, 1).value();
    program.values.push_back({name, {{DType::float32, std::move(shape)}, atoms, parsed}});
    return static_cast<ProgramValueId>(program.values.size() - 1);
  }

  Instruction& add(Action action, Phase phase, const std::string& node,
                   const std::vector<ProgramValueId>& operands, std::vector<ProgramValueId> results) {
    Instruction& instruction = program.instructions.emplace_back();
    instruction.action = std::move(action);
    if (Compute* compute = instruction.compute()) *compute = {.op = "test." + node, .local = true};
    instruction.phase = phase;
    instruction.name = instruction.node = node;
    for (const ProgramValueId id : operands) instruction.operands.push_back({"", id, program.type(id).layout});
    instruction.results = std::move(results);
    return instruction;
  }

  void update(ProgramValueId gradient) {
    Instruction& update = add(Update{}, Phase::update, "", {gradient}, {});
    update.parameter = 0;
    update.name = "w";
  }
};

const Compute kCompute;
const MoveStep kMove;
constexpr auto kForward = Phase::forward, kBackward = Phase::backward;

void expect_adds_up(const Program& program, const MemoryProfile& profile) {
  const std::vector<std::int64_t> curve = memory_curve(program);
  ASSERT_EQ(profile.curve.size(), curve.size());
  for (std::size_t i = 0; i < curve.size(); ++i) EXPECT_EQ(profile.curve[i].held.sum(), curve[i]) << i;
  EXPECT_EQ(profile.peak_bytes, *std::max_element(curve.begin(), curve.end()));
  EXPECT_EQ(profile.curve[profile.peak].held.sum(), profile.peak_bytes);
  std::int64_t held = 0;
  for (const HeldTensor& tensor : profile.peak_tensors) held += tensor.bytes;
  EXPECT_EQ(held, profile.peak_bytes);
}

// A weight that is stored in halves and gathered, a product with it, and a norm that keeps a statistic.
Program two_nodes() {
  Builder build;
  const auto w = build.value("w", {4, 4}, "S0R"), whole = build.value("w.1", {4, 4}), x = build.value("x", {2, 4});
  const auto h = build.value("h", {2, 4}), tmp = build.value("tmp", {2}), stat = build.value("stat", {2}),
             loss = build.value("loss", {});
  build.add(kMove, kForward, "linear", {w}, {whole});
  build.add(kCompute, kForward, "linear", {x, whole}, {h});
  build.add(kCompute, kForward, "norm", {h}, {tmp, stat});
  build.add(kCompute, kForward, "norm", {tmp, stat}, {loss});
  const auto seed = build.value("seed", {}), part = build.value("part", {2, 4}), grad_h = build.value("grad h", {2, 4});
  const auto grad_whole = build.value("grad w", {4, 4}), grad = build.value("gradient of w", {4, 4}, "S0R");
  build.add(kCompute, kBackward, "", {}, {seed});
  build.add(kCompute, kBackward, "norm", {seed, h, stat}, {part});
  build.add(kCompute, kBackward, "norm", {part, h}, {grad_h});
  build.add(kCompute, kBackward, "linear", {x, whole, grad_h}, {grad_whole});
  build.add(kMove, kBackward, "linear", {grad_whole}, {grad});
  build.update(grad);
  build.program.parameters.push_back({"w", 0, w, grad, build.program.type(w).layout});
  build.program.inputs.push_back({SourceKind::user_input, 1, x});
  build.program.outputs.push_back({OutputKind::loss, "", 2, loss});
  place_frees(build.program);
  return std::move(build.program);
}

TEST(MemoryProfile, SplitsTheCurveByWhatFillsIt) {
  const Program program = two_nodes();
  const MemoryProfile profile = memory_profile(program);
  expect_adds_up(program, profile);
  EXPECT_EQ(profile.parameter_bytes, 32);
  EXPECT_EQ(profile.gradient_bytes, 32);
  EXPECT_EQ(profile.optimizer_bytes, 64);
  EXPECT_EQ(profile.saved_bytes, 32 + 8 + 32);  // h and the statistic, and x, which the backward reads
  const MemorySplit& last = profile.curve.back().held;
  EXPECT_EQ(last[MemoryKind::output], 4);
  EXPECT_EQ(last.sum(), 32 + 64 + 4);
}

TEST(MemoryProfile, NamesThePeakAndWhatIsHeldThere) {
  const MemoryProfile profile = memory_profile(two_nodes());
  EXPECT_EQ(profile.peak_bytes, 292);
  EXPECT_EQ(profile.peak_node, "norm");
  const MemorySplit& split = profile.curve[profile.peak].held;
  EXPECT_EQ(split[MemoryKind::gathered], 64);
  EXPECT_EQ(split[MemoryKind::activation], 32);
  EXPECT_EQ(split[MemoryKind::input], 32);
  EXPECT_EQ(split[MemoryKind::temporary], 64);
  EXPECT_EQ(split[MemoryKind::gradient], 0);
  const std::vector<HeldTensor> expected = {
      {"w", MemoryKind::optimizer, {DType::float32, {2, 4}}, 2, 64, ""},
      {"w.1", MemoryKind::gathered, {DType::float32, {4, 4}}, 1, 64, "linear"},
      {"w", MemoryKind::parameter, {DType::float32, {2, 4}}, 1, 32, ""},
      {"x", MemoryKind::input, {DType::float32, {2, 4}}, 1, 32, ""},
      {"h", MemoryKind::activation, {DType::float32, {2, 4}}, 1, 32, "linear"},
      {"grad h", MemoryKind::temporary, {DType::float32, {2, 4}}, 1, 32, "norm"},
      {"part", MemoryKind::temporary, {DType::float32, {2, 4}}, 1, 32, "norm"},
      {"loss", MemoryKind::output, {DType::float32, {}}, 1, 4, "norm"},
  };
  EXPECT_EQ(profile.peak_tensors, expected);
}

TEST(MemoryProfile, GivesEachNodeItsPartOfFigure3) {
  const MemoryProfile profile = memory_profile(two_nodes());
  ASSERT_EQ(profile.nodes.size(), 2U);
  const NodeMemory& linear = profile.nodes[0];
  EXPECT_EQ(linear.name, "linear");
  EXPECT_EQ(linear.op, "test.linear");
  EXPECT_EQ(linear.fwd_in, 32);   // x; the gathered weight is no activation
  EXPECT_EQ(linear.fwd_tmp, 64);  // the gathered weight
  EXPECT_EQ(linear.fwd_out, 32);
  EXPECT_EQ(linear.bwd_tmp, 64);  // the gradient before it is reduced
  EXPECT_EQ(linear.bwd_out, 32);
  EXPECT_EQ(linear.saved_bytes, 32);  // h, for the norm's backward
  const NodeMemory& norm = profile.nodes[1];
  EXPECT_EQ(norm.fwd_in, 32);
  EXPECT_EQ(norm.fwd_tmp, 8 + 8);
  EXPECT_EQ(norm.fwd_out, 4);
  EXPECT_EQ(norm.bwd_tmp, 32);
  EXPECT_EQ(norm.bwd_out, 32);
  EXPECT_EQ(norm.saved_bytes, 8);
}

// Two microbatches of one node, which reads an input of its own and a buffer, forward and backward.
Program two_microbatches(const std::string& order) {
  Builder build;
  const auto w = build.value("w", {4}), sum = build.value("sum", {4}), part = build.value("part", {4});
  const auto x = build.value("x", {2}), buffer = build.value("buffer", {5}), saved = build.value("saved", {8}), unread = build.value("unread", {16});
  Program& program = build.program;
  program.training.optimizer = Optimizer::sgd;
  program.order = parse_step_order(order, 2).value();
  for (const ProgramValueId id : {w, sum, buffer, unread}) program.values[id].of_step = true;
  build.add(kCompute, kForward, "a", {w, x, buffer, unread}, {saved});
  build.add(kCompute, kBackward, "a", {saved, x, buffer}, {part});
  build.add(Accumulate{}, kBackward, "a", {part}, {sum}).when = When::first;
  build.add(Accumulate{}, kBackward, "a", {sum, part}, {sum}).when = When::later;
  build.update(sum);
  program.parameters.push_back({"w", 0, w, sum, program.type(w).layout});
  program.inputs = {{SourceKind::user_input, 1, x, 0}, {SourceKind::user_input, 1, x, 1}, {SourceKind::buffer, 2, buffer}, {SourceKind::buffer, 3, unread}};
  place_frees(program);
  EXPECT_TRUE(validate_finished(program)) << validate_finished(program).error().message;
  return program;
}

// What is saved is dropped by its own backward, so that a second forward adds to nothing, unless it comes before that.
TEST(MemoryProfile, CountsWhatMicrobatchesInFlightSave) {
  const std::int64_t saved = 4 * 8, x = 4 * 2, buffer = 4 * 5;
  for (const auto& [order, in_flight] : {std::pair("F0 B0 F1 B1", 1), std::pair("F0 F1 B0 B1", 2)}) {
    const Program program = two_microbatches(order);
    const MemoryProfile profile = memory_profile(program);
    expect_adds_up(program, profile);
    EXPECT_EQ(profile.optimizer_bytes, 0);
    EXPECT_EQ(profile.saved_bytes, in_flight * (saved + x) + buffer) << order;
    ASSERT_EQ(profile.nodes.size(), 1U);
    EXPECT_EQ(profile.nodes[0].fwd_tmp, saved);  // of one microbatch
    EXPECT_EQ(profile.nodes[0].bwd_tmp, 4 * 4);  // its gradient
    EXPECT_EQ(profile.nodes[0].bwd_out, 4 * 4);  // the sum
  }
}

TEST(MemoryProfile, CountsWhatAGradientIsReducedFromAsAGradient) {
  const MemoryProfile profile = memory_profile(two_nodes());
  const auto most = std::max_element(
      profile.curve.begin(), profile.curve.end(),
      [](const auto& a, const auto& b) { return a.held[MemoryKind::gradient] < b.held[MemoryKind::gradient]; });
  EXPECT_EQ(most->held[MemoryKind::gradient], 64 + 32);
  EXPECT_EQ(profile.gradient_bytes, 32);
}

TEST(MemoryProfile, OfNothingIsEmpty) {
  const MemoryProfile profile = memory_profile({});
  EXPECT_TRUE(profile.curve.empty());
  EXPECT_EQ(profile.peak_bytes, 0);
  EXPECT_TRUE(profile.peak_tensors.empty());
}

}  // namespace
}  // namespace meshwright
