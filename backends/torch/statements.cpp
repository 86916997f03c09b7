#include "statements.h"

#include <algorithm>
#include <map>
#include <set>

#include "meshwright/local_call.h"
#include "op_text.h"
#include "python_text.h"
#include "meshwright/lower.h"

namespace meshwright::torch {

namespace {

constexpr char kValueBegin = '\x01', kMemberBegin = '\x02', kEnd = '\x03', kEscape = '\x04';

// A model's name may have the bytes that marks are made of.
std::string escaped(const std::string& path) {
  std::string made;
  for (const char c : path) made += c > 0 && c <= kEscape ? std::string{kEscape, static_cast<char>(c + '0')} : std::string(1, c);
  return made;
}

std::string unescaped(const std::string& content) {
  std::string made;
  for (std::size_t i = 0; i < content.size(); ++i) made += content[i] == kEscape ? static_cast<char>(content[++i] - '0') : content[i];
  return made;
}

// Calls `visit(is_value, content)` for every mark and `keep(text)` for what is between.
template <class Visit, class Keep>
void scan(const std::string& text, Visit visit, Keep keep) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t mark = text.find_first_of(std::string{kValueBegin, kMemberBegin}, at);
    keep(text.substr(at, mark - at));
    if (mark == std::string::npos) return;
    const std::size_t end = text.find(kEnd, mark);
    visit(text[mark] == kValueBegin, unescaped(text.substr(mark + 1, end - mark - 1)));
    at = end + 1;
  }
}

// Whether two layouts of one tensor have the same shards: what a rank holds is then of one shape.
bool same_shards(const Layout& a, const Layout& b) {
  for (std::size_t axis = 0; axis < a.mesh_rank(); ++axis) {
    if ((a[axis].is_shard() || b[axis].is_shard()) && a[axis] != b[axis]) return false;
  }
  return true;
}

class Writer {
 public:
  explicit Writer(const BackendInput& input) : input_(input), paths_(input.context->conversions) {}

  Result<Forward> run() {
    Result<Program> lowered = lower_forward(*input_.plan);
    if (!lowered) return lowered.error();
    forward_.program = std::move(*lowered);
    for (const Node& node : graph().nodes) module_of_[node.name] = node.module_path;
    for (const Instruction& instruction : program().instructions) {
      for (const ProgramOperand& operand : instruction.operands) ++uses_[operand.value];
    }
    for (const ProgramOutput& output : program().outputs) ++uses_[output.value];
    add_counting();
    add_inputs();
    if (Status status = add_statements(); !status) return status.error();
    if (Status status = add_outputs(); !status) return status.error();
    if (Status status = add_members(); !status) return status.error();
    return std::move(forward_);
  }

 private:
  [[nodiscard]] Program& program() { return forward_.program; }
  [[nodiscard]] const Graph& graph() const { return input_.plan->graph(); }
  [[nodiscard]] const Mesh& mesh() { return forward_.program.mesh; }

  // --- moves ---

  // Errors: of the conversion search.
  Result<std::vector<std::string>> path(const ShardedType& from, const Layout& to, bool packed = false) {
    const ConversionProblem problem{mesh(), from.atoms, input_.profile, size_bytes(from.type.dtype), packed};
    const Result<const ConversionPath*> found = paths_.find(problem, from.layout, to);
    if (!found) return found.error();
    std::vector<std::string> texts;
    ShardedType here = from;
    for (const Move& move : (*found)->moves) {
      for (std::string& text : moves(here, move, mesh())) texts.push_back(std::move(text));
      here.layout = move.result;
    }
    return texts;
  }

  // Of the gradient of a value, back from where one copy of it has its own to where another one has.
  Result<std::vector<std::string>> path_back(ProgramValueId from, const Layout& to, bool packed = false) {
    ShardedType gradient = program().values[from].type;
    gradient.layout = *program().values[from].gradient;
    return path(gradient, to, packed);
  }

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

  // Batch norms, whose buffers change in training alone.
  void add_counting() {
    std::set<ValueId> means;
    for (const Node& node : graph().nodes) {
      const std::optional<std::size_t> mean = node.operand_index("running_mean");
      if (mean && follows_mode(node)) means.insert(node.operands[*mean].value);
    }
    for (const Source& source : graph().sources) {
      if (means.contains(source.value)) counting_.insert(parent(source_name(graph(), source)));
    }
  }

  static std::string parent(const std::string& path) { return path.substr(0, path.rfind('.') == std::string::npos ? 0 : path.rfind('.')); }

  std::string name_of(ValueId source) const { return source_name(graph(), source_of(source)); }

  // How a rank holds it between steps: a parameter that is trained, and read without a gradient besides, as its shard.
  [[nodiscard]] ShardedType held(ValueId source) const {
    for (const ProgramParameter& parameter : forward_.program.parameters) {
      if (parameter.source != source) continue;
      ShardedType shard = forward_.program.type(parameter.value);
      shard.layout = parameter.state;
      return shard;
    }
    return kept_.at(source);
  }

  // Inputs and buffers before the first statement: their text wherever they are used as they are kept.
  Status begin() {
    for (const ProgramInput& input : program().inputs) {
      const ShardedType kept = held(input.source);
      const std::string source = name_of(input.source);
      std::string text = member_mark(source);
      for (auto& [name, value] : forward_.inputs) {
        if (input.kind != SourceKind::user_input || name != source) continue;
        if (value == kNoId) {
          value = static_cast<ProgramValueId>(program().values.size());
          program().values.push_back({name, kept});
        }
        text = value_mark(value);
      }
      const Result<std::vector<std::string>> cuts = path(kept, program().type(input.value).layout);
      if (!cuts) return cuts.error();
      const bool wants_gradient = program().values[input.value].gradient.has_value();
      const Result<std::vector<std::string>> back = wants_gradient ? path_back(input.value, kept.layout) : std::vector<std::string>{};
      if (!back) return back.error();
      if (cuts->empty() && back->empty()) texts_[input.value] = text;
      else if (wants_gradient) texts_[input.value] = "convert(" + text + ", forward=" + list(*cuts) + ", backward=" + list(*back) + ")";
      else texts_[input.value] = "run(" + list(*cuts) + ", " + text + ")";
    }
    return Done{};
  }

  // --- statements ---

  [[nodiscard]] std::string text_of(ProgramValueId value) const {
    const auto known = texts_.find(value);
    return known != texts_.end() ? known->second : value_mark(value);
  }

  std::string module_of(const Instruction& instruction) const {
    if (!instruction.module_path.empty()) return instruction.module_path;
    const auto found = module_of_.find(instruction.node);
    return found == module_of_.end() ? "" : found->second;
  }

  Status state(const Instruction& instruction, std::vector<ProgramValueId> results, std::string text) {
    if (instruction.op == "meshwright.experts") results.resize(1);  // the others are for its own gradient, which autograd makes
    if (instruction.op == "meshwright.recurrent") results.pop_back();
    if (is_batch_norm(instruction.op)) results.resize(5, kNoId);  // the prelude's gives what any kind has
    for (ProgramValueId& result : results) {
      if (uses_[result] == 0) result = kNoId;
    }
    forward_.statements.push_back({module_of(instruction), std::move(results), std::move(text)});
    return add_mutations(instruction);
  }

  Status add_statements() {
    if (Status status = begin(); !status) return status;
    const std::vector<Instruction> instructions = program().instructions;
    for (const Instruction& instruction : instructions) {
      if (Status status = add(instruction); !status) return status;
    }
    return Done{};
  }

  Status add(const Instruction& instruction) {
    if (instruction.kind == InstructionKind::load_parameter) return load(instruction);
    return instruction.kind == InstructionKind::convert ? convert(instruction) : compute(instruction);
  }

  Status load(const Instruction& instruction) {
    const ProgramValueId result = instruction.results[0];
    const ProgramParameter& parameter = program().parameters[instruction.parameter];
    loads_[instruction.parameter] = result;
    const std::string text = "used(" + member_mark(parameter.name) + ")";
    return uses_[result] == 1 ? rename(result, text) : state(instruction, {result}, text);
  }

  // A value that is no variable: its text stands wherever it is used.
  Status rename(ProgramValueId value, std::string text) {
    texts_[value] = std::move(text);
    return Done{};
  }

  Status convert(const Instruction& instruction) {
    const ProgramValueId from = instruction.operands[0].value, to = instruction.results[0];
    const Result<std::vector<std::string>> forward = path(program().type(from), program().type(to).layout);
    if (!forward) return forward.error();
    if (!program().values[to].gradient) {
      if (forward->empty()) return rename(to, text_of(from));
      return state(instruction, {to}, "run(" + list(*forward) + ", " + text_of(from) + ")");
    }
    if (!same_shards(program().type(to).layout, *program().values[to].gradient)) {  // no plan of ours has such a fork
      return bad_input("'" + program().values[to].name + "' and its gradient lie in different shards, which autograd does not allow");
    }
    const Result<std::vector<std::string>> backward = path_back(to, *program().values[from].gradient);
    if (!backward) return backward.error();
    if (forward->empty() && backward->empty()) return rename(to, text_of(from));
    return state(instruction, {to}, "convert(" + text_of(from) + ", forward=" + list(*forward) + ", backward=" + list(*backward) + ")");
  }

  Status compute(const Instruction& instruction) {
    const OpFamily* family = input_.ops.find(instruction.op);
    std::vector<Instruction> steps;
    if (family == nullptr) {
      steps.push_back(instruction);  // an op that nobody knows runs replicated, on whole shapes
    } else if (Status status = localize(*family, instruction, program(), steps); !status) {
      return status;
    }
    const ValueText value = [&](ProgramValueId id) { return text_of(id); };
    if (steps.size() > 1 && !are_plain(steps)) {
      const Result<std::string> text = steps_text(instruction, steps, program(), value);
      if (!text) return text.error();
      return state(instruction, instruction.results, *text);
    }
    for (const Instruction& step : steps) {
      for (const ProgramOperand& operand : step.operands) ++uses_[operand.value];
    }
    for (const Instruction& step : steps) {
      const Result<std::string> text = op_text(step, program(), value);
      if (!text) return text.error();
      const bool renames = step.results.size() == 1 && !step.operands.empty() && *text == value_mark(step.operands[0].value);
      Status status = renames ? rename(step.results[0], *text) : state(step, step.results, *text);
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
    const auto kept = kept_.find(buffer);
    if (kept == kept_.end()) kept_.emplace(buffer, program().type(output.value));
    const Result<std::vector<std::string>> moves = path(program().type(output.value), kept_.at(buffer).layout);
    if (!moves) return moves.error();
    const std::string text = text_of(output.value);
    forward_.statements.push_back({module, {}, "leave(" + member_mark(name_of(buffer)) + ", " +
                                                   (moves->empty() ? text : "run(" + list(*moves) + ", " + text + ")") +
                                                   (counting_.contains(parent(name_of(buffer))) ? ", training=self.training)" : ")")});
    return Done{};
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
    if (count == 0) return bad_input("the model returns nothing");
    return Done{};
  }

  // --- members ---

  Status add_members() {
    std::map<ValueId, std::uint32_t> index;
    for (std::uint32_t i = 0; i < program().parameters.size(); ++i) index[program().parameters[i].source] = i;
    for (const Source& source : graph().sources) {
      if (source.kind == SourceKind::user_input) continue;
      const std::string name = source_name(graph(), source);
      for (std::size_t i = 1; i < source.names.size(); ++i) forward_.tied.emplace_back(source.names[i], name);
      const auto found = index.find(source.value);
      if (source.kind == SourceKind::parameter) {
        Result<std::string> text = found != index.end() ? parameter_text(found->second) : untrained_parameter(source.value);
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

  static std::string dtype_argument(const TensorType& type) { return type.dtype == DType::float32 ? "" : ", dtype=" + dtype(type.dtype); }

  Result<std::string> parameter_text(std::uint32_t index) {
    const ProgramParameter& parameter = program().parameters[index];
    const ShardedType stored = program().type(parameter.value);
    ShardedType state = stored;
    state.layout = parameter.state;
    std::string text = "parameter(" + layout(state, mesh()) + dtype_argument(state.type);
    const auto add = [&](const char* name, const std::vector<std::string>& moves) {
      if (!moves.empty()) text += std::string(", ") + name + "=" + list(moves);
    };
    const Result<std::vector<std::string>> kept = path(state, stored.layout);
    if (!kept) return kept.error();
    add("stored", *kept);
    const auto load = loads_.find(index);
    if (load == loads_.end()) return text + ")";
    const ProgramValue& loaded = program().values[load->second];
    const Result<std::vector<std::string>> gathered = path(stored, loaded.type.layout);
    if (!gathered) return gathered.error();
    add("loaded", *gathered);
    ShardedType gradient = loaded.type;
    if (loaded.gradient) gradient.layout = *loaded.gradient;
    const Result<std::vector<std::string>> reduced = path(gradient, parameter.state, true);
    if (!reduced) return reduced.error();
    add("reduced", *reduced);
    if (parameter.regather) text += ", regather=True";
    if (parameter.prefetch) text += ", prefetch=True";
    return text + ")";
  }

  const BackendInput& input_;
  Forward forward_;
  ConversionPaths paths_;
  std::map<std::string, std::string, std::less<>> module_of_;  // by node
  std::map<ProgramValueId, int> uses_;
  std::map<ProgramValueId, std::string> texts_;                // of values that are no variables
  std::map<ValueId, ShardedType> kept_;                        // inputs and buffers
  std::map<std::uint32_t, ProgramValueId> loads_;              // by parameter
  std::set<std::string> counting_;                             // paths of modules
  std::set<std::size_t> left_;                                 // outputs that are in their buffer already
};

}  // namespace

std::string value_mark(ProgramValueId value) { return kValueBegin + std::to_string(value) + kEnd; }
std::string member_mark(const std::string& path) { return kMemberBegin + escaped(path) + kEnd; }

std::vector<ProgramValueId> values_in(const std::string& text) {
  std::vector<ProgramValueId> values;
  scan(text, [&](bool is_value, const std::string& content) { if (is_value) values.push_back(static_cast<ProgramValueId>(std::stoul(content))); },
       [](const std::string&) {});
  return values;
}

std::vector<std::string> members_in(const std::string& text) {
  std::vector<std::string> members;
  scan(text, [&](bool is_value, const std::string& content) { if (!is_value) members.push_back(content); }, [](const std::string&) {});
  return members;
}

std::string without_marks(const std::string& text, const std::function<std::string(ProgramValueId)>& value,
                          const std::function<std::string(const std::string&)>& member) {
  std::string made;
  scan(text,
       [&](bool is_value, const std::string& content) {
         made += is_value ? value(static_cast<ProgramValueId>(std::stoul(content))) : member(content);
       },
       [&](const std::string& between) { made += between; });
  return made;
}

std::string source_name(const Graph& graph, const Source& source) {
  return source.names.empty() ? graph.values[source.value].name : source.names[0];
}

Result<Forward> forward_statements(const BackendInput& input) { return Writer(input).run(); }

}  // namespace meshwright::torch
