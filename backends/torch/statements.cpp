#include "statements.h"

#include <algorithm>
#include <map>
#include <set>

#include "forward.h"
#include "layout_text.h"
#include "meshwright/gather_units.h"
#include "meshwright/recompute.h"
#include "move_texts.h"
#include "op_text.h"
#include "parameter_text.h"
#include "python_text.h"
#include "straight_way.h"

namespace meshwright::torch {

namespace {

// Whether two layouts of one tensor have the same shards: what a rank holds is then of one shape.
bool same_shards(const Layout& a, const Layout& b) {
  for (std::size_t axis = 0; axis < a.mesh_rank(); ++axis) {
    if ((a[axis].is_shard() || b[axis].is_shard()) && a[axis] != b[axis]) return false;
  }
  return true;
}

class Writer {
 public:
  Writer(const BackendInput& input, ForwardProgram read) : input_(input), read_(std::move(read)) {}

  Result<Forward> run() {
    forward_.microbatches = training().microbatches;
    for (const Node& node : graph().nodes) nodes_[node.name] = &node;
    Result<Recomputation> again = recomputation(input_.plan->model, input_.plan->recomputed);
    if (!again) return again.error();
    again_ = std::move(*again);
    for (const auto& step : read_.steps) {
      if (const auto* conversion = std::get_if<Conversion>(&step)) ++uses_[conversion->from];
      if (const auto* call = std::get_if<Call>(&step)) count_uses(call->whole);
    }
    for (const ProgramOutput& output : program().outputs) ++uses_[output.value];
    for (const ProgramValueId value : read_.sent) ++uses_[value];
    reads_ = uses_;
    add_inputs();
    if (Status status = add_statements(); !status) return status.error();
    if (Status status = check_again(); !status) return status.error();
    if (Status status = add_outputs(); !status) return status.error();
    finish_leaving();
    if (Status status = add_members(); !status) return status.error();
    forward_.program = std::move(read_.program);
    return std::move(forward_);
  }

 private:
  [[nodiscard]] const Program& program() const { return read_.program; }
  [[nodiscard]] const Graph& graph() const { return input_.plan->graph(); }
  [[nodiscard]] const Mesh& mesh() const { return program().mesh; }
  [[nodiscard]] const TrainingSettings& training() const { return input_.plan->training; }

  void count_uses(const Instruction& instruction) {
    for (const ProgramOperand& operand : instruction.operands) ++uses_[operand.value];
  }

  [[nodiscard]] std::string along(const ShardedType& from, const std::vector<Move>& moves) const { return list(move_texts(from, moves, mesh())); }

  // --- inputs, parameters ---

  [[nodiscard]] const Source& source_of(ValueId id) const {
    return *std::find_if(graph().sources.begin(), graph().sources.end(), [&](const Source& source) { return source.value == id; });
  }

  // A buffer or an input that is used in several layouts is kept in what these have in common, and cut further at its use.
  void add_inputs() {
    for (const ProgramInput& input : program().inputs) {
      Layout& kept = kept_.try_emplace(input.source, program().type(input.value)).first->second.layout;
      for (std::size_t axis = 0; axis < mesh().rank(); ++axis) {
        const Placement placement = program().type(input.value).layout[axis];
        if (placement.is_partial() || kept[axis] != placement) kept.place(axis, Placement::replicate());
      }
    }
    for (const ProgramOutput& output : program().outputs) {
      if (output.kind != OutputKind::buffer_mutation) continue;
      for (auto& [source, type] : kept_) {
        const std::vector<std::string>& names = source_of(source).names;
        if (std::find(names.begin(), names.end(), output.target) == names.end()) continue;
        const Layout& left = program().type(output.value).layout;
        for (std::size_t axis = 0; axis < mesh().rank(); ++axis) {
          if (type.layout[axis] != left[axis]) type.layout.place(axis, Placement::replicate());
        }
      }
    }
    for (const Source& source : graph().sources) {
      const auto kept = kept_.find(source.value);
      if (source.kind != SourceKind::user_input) continue;
      const std::string name = source_name(graph(), source);
      ShardedType type = kept != kept_.end() ? kept->second : whole(source.value);
      forward_.inputs.emplace_back(name, kNoId);
      forward_.input_layouts.emplace_back(name, layout(type, mesh()));
    }
  }

  ShardedType whole(ValueId id) {
    const TensorType& type = graph().type(id);
    return {type, whole_dimensions(type.shape), Layout(mesh().rank())};
  }

  // The module that owns the node's buffers: they change in training alone.
  void add_counting(const std::string& node) {
    const auto found = nodes_.find(node);
    if (found == nodes_.end()) return;
    for (const Operand& operand : found->second->operands) {
      for (const Source& source : graph().sources) {
        if (source.value == operand.value && source.kind == SourceKind::buffer) counting_.insert(parent(source_name(graph(), source)));
      }
    }
  }

  static std::string parent(const std::string& path) { return path.substr(0, path.rfind('.') == std::string::npos ? 0 : path.rfind('.')); }

  std::string name_of(ValueId source) const { return source_name(graph(), source_of(source)); }

  // How a rank holds it between steps: a parameter that is trained, and read without a gradient besides, as its shard.
  [[nodiscard]] ShardedType held(ValueId source) const {
    for (const ProgramParameter& parameter : program().parameters) {
      if (parameter.source != source) continue;
      ShardedType shard = program().type(parameter.value);
      shard.layout = parameter.state;
      return shard;
    }
    return kept_.at(source);
  }

  // Of a trained parameter that is read without a gradient besides.
  [[nodiscard]] std::optional<DType> master_of(const ProgramInput& input) const {
    const auto is_it = [&](const ProgramParameter& parameter) { return parameter.source == input.source; };
    if (std::ranges::none_of(program().parameters, is_it)) return std::nullopt;
    return master_dtype(program().type(input.value).type, training());
  }

  // Inputs and buffers before the first statement: their text wherever they are used as they are kept.
  Status begin() {
    for (const ProgramInput& input : program().inputs) {
      const ShardedType kept = held(input.source);
      const std::string source = name_of(input.source);
      std::string text = member_mark(source);
      for (auto& [name, value] : forward_.inputs) {
        if (input.kind != SourceKind::user_input || name != source) continue;
        if (value == kNoId) value = read_.add(name, kept);
        text = value_mark(value);
      }
      if (master_of(input)) text += ".to(" + dtype(kept.type.dtype) + ")";
      const Result<std::vector<Move>> cuts = straight_way(kept, program().type(input.value).layout, mesh(), input_.profile);
      if (!cuts) return cuts.error();
      const bool wants_gradient = read_.gradients[input.value].has_value();
      const Result<std::vector<Move>> back =
          wants_gradient ? straight_way(read_.gradient_of(input.value), kept.layout, mesh(), input_.profile) : std::vector<Move>{};
      if (!back) return back.error();
      if (!cuts->empty() || !back->empty()) text = conversion_text(text, kept, *cuts, input.value, *back);
      texts_[input.value] = text;
    }
    return Done{};
  }

  // Of a value that lies as `from` says; `to`: what it becomes.
  [[nodiscard]] std::string conversion_text(const std::string& value, const ShardedType& from, const std::vector<Move>& moves, ProgramValueId to,
                                            const std::vector<Move>& back) const {
    if (!read_.gradients[to]) return "run(" + along(from, moves) + ", " + value + ")";
    return "convert(" + value + ", forward=" + along(from, moves) + ", backward=" + along(read_.gradient_of(to), back) + ")";
  }

  // --- statements ---

  [[nodiscard]] std::string text_of(ProgramValueId value) const {
    const auto known = texts_.find(value);
    return known != texts_.end() ? known->second : value_mark(value);
  }

  std::string module_of(const Instruction& instruction) const {
    if (!instruction.module_path.empty()) return instruction.module_path;
    const auto found = nodes_.find(instruction.node);
    return found == nodes_.end() ? "" : found->second->module_path;
  }

  Status state(const Instruction& instruction, std::vector<ProgramValueId> results, const EmittedOp& op) {
    if (op.values > 0) results.resize(op.values, kNoId);
    for (ProgramValueId& result : results) {
      if (uses_[result] == 0) result = kNoId;
    }
    const bool leaves = leaves_by_itself(instruction, results, op);
    if (leaves) results.resize(1);
    if (op.buffers_follow_mode) add_counting(instruction.node);
    if (Status status = forward_.prelude.add(op.prelude); !status) return add_context("the emitter of " + std::get<Compute>(instruction.action).op, status.error());
    if (!op.summed.empty() && results.size() == 1 && uses_[results[0]] == 1) summed_[results[0]] = {forward_.statements.size(), op.summed};
    forward_.statements.push_back({module_of(instruction), std::move(results), leaves ? op.leaving : op.text, op.draws});
    return add_mutations(instruction);
  }

  // Whether the op's `leaving` does what the program says, all that is left in buffers included, which is done then.
  bool leaves_by_itself(const Instruction& instruction, const std::vector<ProgramValueId>& results, const EmittedOp& op) {
    if (op.leaving.empty() || results.empty()) return false;
    std::set<std::size_t> done;
    for (std::size_t i = 1; i < results.size(); ++i) {
      const auto left = std::ranges::find(op.left, i, &std::pair<std::size_t, std::string>::first);
      if (left == op.left.end() && results[i] == kNoId) continue;
      const std::size_t output = left == op.left.end() ? kNoId : left_alone(instruction, results[i], left->second);
      if (output == kNoId) return false;
      done.insert(output);
    }
    left_.insert(done.begin(), done.end());
    return true;
  }

  // The output that leaves a value in the buffer that the instruction reads by this name, as it is kept, if nothing else reads either; or kNoId.
  [[nodiscard]] std::size_t left_alone(const Instruction& instruction, ProgramValueId value, const std::string& name) {
    const auto operand = std::ranges::find(instruction.operands, name, &ProgramOperand::name);
    if (value == kNoId || reads_[value] != 1 || operand == instruction.operands.end() || reads_[operand->value] != 1) return kNoId;
    const auto input = std::ranges::find(program().inputs, operand->value, &ProgramInput::value);
    const auto output = std::ranges::find(program().outputs, value, &ProgramOutput::value);
    if (input == program().inputs.end() || input->kind != SourceKind::buffer || output == program().outputs.end()) return kNoId;
    const bool is_there = output->kind == OutputKind::buffer_mutation && std::ranges::count(source_of(input->source).names, output->target) > 0;
    const bool is_alone = std::ranges::count(program().inputs, input->source, &ProgramInput::source) == 1;
    const bool as_kept = kept_.at(input->source).layout == program().type(value).layout && text_of(operand->value) == member_mark(name_of(input->source));
    return is_there && is_alone && as_kept ? static_cast<std::size_t>(output - program().outputs.begin()) : kNoId;
  }

  Status state(const Instruction& instruction, std::vector<ProgramValueId> results, std::string text) {
    return state(instruction, std::move(results), EmittedOp{.text = std::move(text)});
  }

  Status add_statements() {
    if (Status status = begin(); !status) return status;
    for (const auto& step : read_.steps) {
      if (Status status = std::visit([&](const auto& each) { return add(each); }, step); !status) return status;
    }
    return Done{};
  }

  Status add(const Load& load) {
    const std::string text = "used(" + member_mark(program().parameters[load.parameter].name) + ")";
    Instruction of_node;
    of_node.node = load.node;
    if (uses_[load.result] == 1) return rename(load.result, text);
    Status status = state(of_node, {load.result}, text);
    forward_.statements.back().loads = true;
    return status;
  }

  // A value that is no variable: its text stands wherever it is used.
  Status rename(ProgramValueId value, std::string text) {
    texts_[value] = std::move(text);
    return Done{};
  }

  Status add(const Conversion& conversion) {
    const ShardedType& type = program().type(conversion.result);
    if (read_.gradients[conversion.result] && !same_shards(type.layout, *read_.gradients[conversion.result])) {  // no plan of ours has such a fork
      return bad_input("'" + program().values[conversion.result].name + "' and its gradient lie in different shards, which autograd does not allow");
    }
    if (const auto sum = summed_.find(conversion.from); sum != summed_.end() && adds_up(conversion)) {
      if (!conversion.again.empty()) {
        const std::string name = operand_converted_before(conversion.again);
        return bad_input("the plan converts '" + name + "' again for its backward, and the emitted program makes it in one with the op that it comes from; " +
                         "keep it ([pins] \"" + name + "\" = \"keep\")");
      }
      Statement& statement = forward_.statements[sum->second.first];
      statement.results = {conversion.result};
      statement.text = sum->second.second;
      if (forward_.made_again.contains(conversion.from)) forward_.made_again.insert(conversion.result);
      return Done{};
    }
    const std::string text = text_of(conversion.from);
    if (conversion.moves.empty() && conversion.back.empty()) return rename(conversion.result, text);
    Instruction of_node;
    of_node.node = conversion.node;
    of_node.results = {conversion.result};
    const std::size_t at = forward_.statements.size();
    Status status = state(of_node, of_node.results,
                          conversion_text(text, program().type(conversion.from), conversion.moves, conversion.result, conversion.back));
    forward_.statements[at].converts = true;
    if (!conversion.again.empty()) {
      forward_.statements[at].node = operand_converted_before(conversion.again);
      forward_.statements[at].again = static_cast<NodeId>(nodes_.at(conversion.again) - graph().nodes.data());
      forward_.made_again.insert(conversion.result);
    }
    forward_.statements[at].settles = conversion.settles;
    return status;
  }

  // The first operand that this node's backward has converted again.
  [[nodiscard]] std::string operand_converted_before(const std::string& node) const {
    const auto id = static_cast<NodeId>(nodes_.at(node) - graph().nodes.data());
    return operand_name(graph(), *again_.converted_again.lower_bound({id, 0}));
  }

  // Whether it makes of a partial sum the sum, and leaves the gradient where it is.
  [[nodiscard]] bool adds_up(const Conversion& conversion) const {
    const auto is_sum = [](const Move& move) { return move.kind == MoveKind::all_reduce; };
    return conversion.back.empty() && std::ranges::all_of(conversion.moves, is_sum) && !program().type(conversion.result).layout.has_partial();
  }

  Status add(const Call& call) {
    const std::size_t first = forward_.statements.size();
    Status status = add_call(call);
    if (status && !again_.is_empty()) note_again(call.whole, first);
    return status;
  }

  // Whole blocks run again as they are (module_text.h).
  [[nodiscard]] bool runs_again(NodeId id) const {
    return again_.runs(id) && std::ranges::find(input_.plan->recomputed, block_of(graph().nodes[id].module_path)) == input_.plan->recomputed.end();
  }

  // What runs again of a call's statements, from the first one on, and what it saves if it does not.
  void note_again(const Instruction& call, std::size_t first) {
    const auto found = nodes_.find(call.name);
    if (found == nodes_.end()) return;
    const Node& node = *found->second;
    const auto id = static_cast<NodeId>(found->second - graph().nodes.data());
    const bool again = runs_again(id);
    for (std::size_t i = first; i < forward_.statements.size(); ++i) {
      if (forward_.statements[i].results.empty()) continue;  // leaves something in a buffer
      forward_.statements[i].node = node.name;
      if (again) forward_.statements[i].again = again_.begin[id];
      if (again && is_copied_by_user(node)) forward_.statements[i].text += ".contiguous()";
    }
    called_.insert(id);
    const NodeBackward& backward = input_.plan->model.backward->memory.nodes[id];
    for (std::size_t i = 0; !again && i < node.operands.size() && i < call.operands.size(); ++i) {
      const std::vector<ProgramValueId> read = values_in(text_of(call.operands[i].value));
      if (backward.saves_operand[i]) forward_.saved.insert(read.begin(), read.end());
    }
    for (std::size_t i = 0; again && i < node.results.size() && i < call.results.size(); ++i) {
      if (again_.makes(node.results[i])) forward_.made_again.insert(call.results[i]);
    }
  }

  // Of what does not lie row by row F.linear makes a copy, and keeps that, whatever is made again.
  [[nodiscard]] bool is_copied_by_user(const Node& node) const {
    if (node.op != "aten.transpose.int" && node.op != "aten.permute") return false;
    for (NodeId id = 0; id < graph().nodes.size(); ++id) {
      const Node& user = graph().nodes[id];
      if (user.op == "aten.linear" && user.operands[0].value == node.results[0] && !again_.runs(id)) return true;
    }
    return false;
  }

  Status check_again() const {
    for (NodeId id = 0; id < graph().nodes.size(); ++id) {
      if (!runs_again(id) || called_.contains(id)) continue;
      return bad_input("the plan runs '" + graph().nodes[id].name + "' again for its backward, which the program does not compute; " +
                       "emit without the pass that takes it out, or plan with search.recompute = \"blocks\"");
    }
    return Done{};
  }

  Status add_call(const Call& call) {
    const Instruction& instruction = call.whole;
    const std::vector<Instruction>& steps = call.steps;
    const ValueText value = [&](ProgramValueId id) { return text_of(id); };
    if ((steps.size() > 1 || steps[0].compute() == nullptr) && !are_plain(steps, input_.emitters)) {
      const Result<EmittedOp> op = op_text(instruction, steps, program(), value, input_.emitters);
      return op ? state(instruction, instruction.results, *op) : op.error();
    }
    for (const Instruction& step : steps) count_uses(step);
    for (const Instruction& step : steps) {
      const Result<EmittedOp> op = op_text(step, {}, program(), value, input_.emitters);
      if (!op) return op.error();
      const bool renames = step.results.size() == 1 && !step.operands.empty() && op->text == value_mark(step.operands[0].value);
      Status status = renames ? rename(step.results[0], op->text) : state(step, step.results, *op);
      if (!status) return status;
    }
    return Done{};
  }

  // --- outputs ---

  // What an instruction leaves in a buffer is put there right behind it, where nothing lies between.
  Status add_mutations(const Instruction& instruction) {
    for (std::size_t i = 0; i < program().outputs.size(); ++i) {
      const ProgramOutput& output = program().outputs[i];
      const bool here = std::find(instruction.results.begin(), instruction.results.end(), output.value) != instruction.results.end();
      if (output.kind != OutputKind::buffer_mutation || !here || left_.contains(i)) continue;
      left_.insert(i);
      if (Status status = mutate(output, module_of(instruction)); !status) return status;
    }
    return Done{};
  }

  Status mutate(const ProgramOutput& output, const std::string& module) {
    ValueId buffer = kNoId;
    for (const Source& source : graph().sources) {
      if (std::find(source.names.begin(), source.names.end(), output.target) != source.names.end()) buffer = source.value;
    }
    if (buffer == kNoId) {
      return bad_input("the plan leaves a value in the buffer '" + output.target +
                       "', which its model does not have; plan the model again");
    }
    const auto kept = kept_.find(buffer);
    if (kept == kept_.end()) kept_.emplace(buffer, program().type(output.value));
    const ShardedType& left = program().type(output.value);
    const Result<std::vector<Move>> moves = straight_way(left, kept_.at(buffer).layout, mesh(), input_.profile);
    if (!moves) return moves.error();
    const std::string text = moves->empty() ? text_of(output.value) : "run(" + along(left, *moves) + ", " + text_of(output.value) + ")";
    const std::string name = name_of(buffer);
    leaving_.emplace_back(forward_.statements.size(), parent(name));
    forward_.statements.push_back({module, {}, "leave(" + member_mark(name) + ", " + text});
    return Done{};
  }

  // Whose buffers follow the mode is known behind the last statement: a batch norm counts before it computes.
  void finish_leaving() {
    for (const auto& [statement, module] : leaving_) {
      forward_.statements[statement].text += counting_.contains(module) ? ", training=self.training)" : ")";
    }
  }

  Status add_outputs() {
    std::size_t count = 0;
    for (std::size_t i = 0; i < program().outputs.size(); ++i) {
      const ProgramOutput output = program().outputs[i];
      if (output.kind == OutputKind::buffer_mutation) {
        if (left_.contains(i)) continue;
        if (Status status = mutate(output, ""); !status) return status;
        continue;
      }
      const std::string name = output.kind == OutputKind::loss ? "loss" : graph().values[output.source].name;
      forward_.outputs.push_back(text_of(output.value));
      forward_.output_layouts.emplace_back(name, layout(program().type(output.value), mesh()));
      ++count;
    }
    for (const ProgramValueId value : read_.sent) forward_.outputs.push_back("sent(" + text_of(value) + ")");
    forward_.received = read_.received;
    if (count == 0 && read_.sent.empty()) return bad_input("the model returns nothing");
    return Done{};
  }

  // --- members ---

  Status add_members() {
    std::map<ValueId, std::uint32_t> index;
    for (std::uint32_t i = 0; i < program().parameters.size(); ++i) index[program().parameters[i].source] = i;
    for (const Source& source : graph().sources) {
      if (source.kind == SourceKind::user_input || source.kind == SourceKind::received) continue;
      const std::string name = source_name(graph(), source);
      for (std::size_t i = 1; i < source.names.size(); ++i) forward_.tied.emplace_back(source.names[i], name);
      const auto found = index.find(source.value);
      if (source.kind == SourceKind::parameter) {
        Result<std::string> text = found != index.end() ? parameter_text(read_, found->second, training()) : untrained_parameter(source.value);
        if (!text) return text.error();
        forward_.members.push_back({name, std::move(*text), false});
        continue;
      }
      const auto kept = kept_.find(source.value);
      const ShardedType type = kept != kept_.end() ? kept->second : whole(source.value);
      forward_.members.push_back({name, "buffer(" + layout(type, mesh()) + dtype_argument(type.type) + ")", true});
    }
    return Done{};
  }

  // A frozen parameter lies as it is computed with. One that the loss does not depend on is kept, whole, so that checkpoints
  // have it.
  Result<std::string> untrained_parameter(ValueId id) {
    const auto kept = kept_.find(id);
    const bool used = kept != kept_.end();
    const std::string text = "parameter(" + layout(used ? kept->second : whole(id), mesh()) + dtype_argument(graph().type(id)) + ")";
    return used ? text + ".requires_grad_(False)" : text;
  }

  const BackendInput& input_;
  ForwardProgram read_;
  Forward forward_;
  std::map<std::string, const Node*, std::less<>> nodes_;      // by name
  std::map<ProgramValueId, int> uses_;
  std::map<ProgramValueId, int> reads_;                        // uses by whole calls, conversions and outputs
  std::map<ProgramValueId, std::string> texts_;                // of values that are no variables
  std::map<ProgramValueId, std::pair<std::size_t, std::string>> summed_;  // partial sums: where they are computed, and as what their sum would be
  std::map<ValueId, ShardedType> kept_;                        // inputs and buffers
  std::set<std::string> counting_;                             // paths of modules whose buffers follow the mode
  std::vector<std::pair<std::size_t, std::string>> leaving_;   // statements that leave something in a buffer, and its module
  std::set<std::size_t> left_;                                 // outputs that are in their buffer already
  Recomputation again_;
  std::set<NodeId> called_;
};

}  // namespace

std::string source_name(const Graph& graph, const Source& source) {
  return source.names.empty() ? graph.values[source.value].name : source.names[0];
}

Result<Forward> forward_statements(const BackendInput& input, const StageEnds* ends) {
  Result<ForwardProgram> read = forward_of(input, ends);
  if (!read) return read.error();
  return Writer(input, std::move(*read)).run();
}

}  // namespace meshwright::torch
