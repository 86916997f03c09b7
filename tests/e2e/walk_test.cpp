// docs/walk.md: one op of GPT-2 from the model's file to what a rank executes, with the values at each station. The page is what
// this test writes; MESHWRIGHT_UPDATE=1 writes it anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "meshwright/frontend.h"
#include "meshwright/strategy.h"
#include "planned_program.h"

namespace meshwright {
namespace {

constexpr const char* kModule = "inner.transformer.h.5.mlp.c_fc";

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

class Walk {
 public:
  std::string write() {
    host::PlanOptions options;
    options.model = test::example("gpt2_small");
    options.cluster = test::cluster("h100x8");
    options.mesh = "2x4";
    plan_ = *test::plan(options).value().plan;
    planned_.emplace(test::program_of(plan_).value());
    const Graph& graph = plan_.graph();
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      if (graph.nodes[id].module_path == kModule && graph.nodes[id].op == "aten.addmm") node_ = id;
    }
    text_ << "# One op of GPT-2 through the rooms\n\n"
             "What happens to the first product of an MLP (`" << kModule << "` of `examples/gpt2_small.pt2`) on its way from the model's file to the ranks of eight H100s,\n"
             "laid out as a mesh 2x4. A test writes this page and holds it against what the code does (`tests/e2e/walk_test.cpp`); the rooms are those of\n"
             "[architecture.md](architecture.md).\n";
    file();
    rule();
    atoms();
    backward();
    mesh();
    strategies();
    plan();
    program();
    return text_.str();
  }

 private:
  [[nodiscard]] const Node& node() const { return plan_.graph().nodes[node_]; }

  void station(const char* title, const char* what) { text_ << "\n## " << title << "\n\n" << what << "\n\n"; }

  [[nodiscard]] static std::string type_text(const TensorType& type) {
    std::string text = std::string(name(type.dtype)) + "[";
    for (std::size_t i = 0; i < type.shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(type.shape[i]);
    return text + "]";
  }

  void file() {
    station("graph: what the file says", "The frontend `torch_export` reads the exported program into a graph of ATen ops. This one is a node of it:");
    text_ << "```\n" << node().name << " = " << node().op << "\n";
    for (const Operand& operand : node().operands) {
      text_ << "  " << operand.name << "  " << plan_.name(operand.value) << "  " << type_text(plan_.type(operand.value)) << "\n";
    }
    for (const ValueId result : node().results) text_ << "  -> " << plan_.name(result) << "  " << type_text(plan_.type(result)) << "\n";
    text_ << "```\n";
  }

  void rule() {
    const AtomizedNode& atoms = plan_.model.atoms->nodes[node_];
    station("rule: how it behaves under sharding", "The op family `matmul` says it in one line: factors, where each stands, and that the bias is an addend (`+`).");
    text_ << "```\n" << to_string(atoms.rule) << "\n```\n\nIts cost is stated for each point that the factors span: ";
    for (const WorkTerm& term : atoms.cost.forward) text_ << number(term.flops) << " FLOPs, on the " << (atoms.cost.matrix ? "matrix" : "vector") << " units.\n";
  }

  void atoms() {
    station("layout: its dimensions, as atoms", "Cuts that views make anywhere are carried through all rules that identify dimensions, so that every tensor speaks of the same atoms. In brackets, those of each dimension:");
    text_ << "```\n";
    const auto add = [&](ValueId value) {
      const AtomShape& shape = plan_.shape(value);
      text_ << "  " << plan_.name(value) << "  ";
      std::size_t atom = 0;
      for (const std::uint8_t count : shape.atoms_of_dimension) {
        text_ << "[";
        for (std::uint8_t i = 0; i < count; ++i, ++atom) text_ << (i > 0 ? " " : "") << shape.sizes[atom] << (shape.paddable[atom] ? "~" : "");
        text_ << "]";
      }
      text_ << "\n";
    };
    for (const Operand& operand : node().operands) add(operand.value);
    for (const ValueId result : node().results) add(result);
    text_ << "```\n";
  }

  void backward() {
    const TrainingAnalysis& model = *plan_.model.backward;
    station("analysis: its gradient", "The family emits the gradient as nodes of the same graph, once for the model. What they use of the forward is what is saved for them:");
    text_ << "```\n";
    for (const NodeId id : model.backward_of[node_]) {
      const Node& gradient = model.training.graph.nodes[id];
      text_ << gradient.name << " = " << gradient.op << "(";
      for (std::size_t i = 0; i < gradient.operands.size(); ++i) text_ << (i > 0 ? ", " : "") << plan_.name(gradient.operands[i].value);
      text_ << ")\n";
    }
    text_ << "```\n";
  }

  void mesh() {
    station("mesh and cost: where it may run", "An axis of the mesh is priced by the slowest link that it crosses; a device by its data sheet and assumed efficiencies (docs/cost-model.md).");
    text_ << "| axis | devices | link | latency | seconds for a byte |\n|---|---|---|---|---|\n";
    for (std::size_t axis = 0; axis < plan_.mesh.rank(); ++axis) {
      const MeshAxis& one = plan_.mesh.axes[axis];
      text_ << "| " << axis << " | " << one.size << " | " << one.slowest_link << " | " << number(one.alpha_seconds) << " | " << number(one.beta_seconds_per_byte) << " |\n";
    }
  }

  void strategies() {
    const ProblemInput input{planned_->tools.context(plan_.model, plan_.training), plan_.mesh, {}};
    const Problem problem = build_problem(input).value();
    std::size_t variable = 0;
    while (problem.variables[variable].node != node_) ++variable;
    const std::vector<Strategy>& strategies = problem.variables[variable].set->strategies;
    station("strategy and search: what it could do", "Each axis shards one factor, passes partial sums on, or repeats the work. The layouts of operands, results and gradients follow from that by the rule.");
    text_ << "The op has " << strategies.size() << " strategies, of the " << problem.strategies << " of all " << problem.variables.size() << " variables; " << problem.edges.size()
          << " edges price what it takes to join them. The cheapest five by themselves:\n\n| what the axes do | forward | backward | inside |\n|---|---|---|---|\n";
    std::vector<const Strategy*> order;
    for (const Strategy& strategy : strategies) order.push_back(&strategy);
    std::stable_sort(order.begin(), order.end(), [](const Strategy* a, const Strategy* b) { return a->seconds(1) < b->seconds(1); });
    for (std::size_t i = 0; i < 5; ++i) {
      const Strategy& one = *order[i];
      text_ << "| " << axes_text(one.node()->call.axes) << " | " << number(1e6 * one.forward_seconds) << " us | " << number(1e6 * one.backward_seconds) << " us | "
            << number(1e6 * (one.node()->forward_communication_seconds + one.node()->backward_communication_seconds)) << " us |\n";
    }
  }

  [[nodiscard]] std::string axes_text(const std::vector<AxisChoice>& axes) const {
    std::string text;
    for (const AxisChoice& choice : axes) text += (text.empty() ? "" : ", ") + to_string(choice, plan_.model.atoms->nodes[node_]);
    return text;
  }

  void plan() {
    std::uint32_t at = 0;
    while (plan_.variables[at].node() == nullptr || plan_.variables[at].node()->node != node_) ++at;
    const PlannedNode& planned = *plan_.variables[at].node();
    station("plan: what was chosen", "The solver answers with one strategy for each variable, and a bound that none is below. Of this op the plan says:");
    text_ << "```\naxes     " << axes_text(planned.call.axes) << "\n";
    for (std::size_t i = 0; i < node().operands.size(); ++i) port(node().operands[i].name, node().operands[i].value, planned.call.operands[i]);
    for (std::size_t i = 0; i < node().results.size(); ++i) port("result", node().results[i], planned.call.results[i]);
    text_ << "```\n\nThe whole step is " << name(plan_.status) << ": objective " << number(1e3 * plan_.objective_seconds) << " ms, bound " << number(1e3 * plan_.lower_bound_seconds)
          << " ms, simulated " << number(1e3 * plan_.step_seconds) << " ms. What changes its layout on the way to the op, and back:\n\n```\n";
    for (const PlannedConversion& conversion : plan_.conversions) {
      if (conversion.to != at && conversion.from != at) continue;
      text_ << (conversion.gradient ? "gradient of " : "") << plan_.name(conversion.value) << ": " << to_string(conversion.source, plan_.shape(conversion.value));
      for (const PlannedMove& move : conversion.moves) {
        text_ << " -" << name(move.move.kind) << " " << short_axes_text(move.move) << "-> " << to_string(move.move.result, plan_.shape(conversion.value));
      }
      text_ << ", " << number(1e6 * conversion.seconds()) << " us" << (conversion.hides ? ", overlapped" : "") << "\n";
    }
    text_ << "```\n";
  }

  void port(const std::string& what, ValueId value, const PortLayouts& layouts) {
    text_ << what << std::string(what.size() < 8 ? 8 - what.size() : 0, ' ') << " " << to_string(layouts.value, plan_.shape(value));
    if (plan_.graph().values[value].requires_gradient) text_ << ", gradient " << to_string(layouts.gradient, plan_.shape(value));
    text_ << "\n";
  }

  void program() {
    station("program: what a rank executes", "Lowering translates the plan, passes finish it. The instructions that serve this op, with one rank's shapes:");
    text_ << "```\n";
    const Program& program = planned_->program;
    for (const Instruction& instruction : program.instructions) {
      if (instruction.node != node().name || instruction.kind() == InstructionKind::free) continue;
      text_ << name(instruction.phase) << "  ";
      if (const Compute* compute = instruction.compute()) text_ << compute->op;
      else if (const Move* move = instruction.move()) text_ << name(move->kind) << " over " << meshwright::axes_text(*move);
      else text_ << name(instruction.kind());
      for (const ProgramOperand& operand : instruction.operands) text_ << "  " << type_text(program.local(operand.value));
      if (!instruction.results.empty()) text_ << "  ->  " << type_text(program.local(instruction.results[0]));
      text_ << (instruction.stream == Stream::communication ? ", overlapped" : "") << "\n";
    }
    text_ << "```\n\n`validate` has proven from the layouts that no collective is missing. Eight threads run it (`meshwright verify`), and what they compute is what one device computes.\n";
  }

  Plan plan_;
  std::optional<test::PlannedProgram> planned_;
  NodeId node_ = 0;
  std::ostringstream text_;
};

TEST(Walk, IsWhatThePageSays) {
  const std::string path = SOURCE_FOLDER "/docs/walk.md";
  const std::string written = Walk().write();
  if (std::getenv("MESHWRIGHT_UPDATE") != nullptr) std::ofstream(path) << written;
  std::stringstream page;
  page << std::ifstream(path).rdbuf();
  EXPECT_EQ(page.str(), written) << "MESHWRIGHT_UPDATE=1 " << PROGRAM << "'s e2e_test writes docs/walk.md anew";
}

}  // namespace
}  // namespace meshwright
