// Small programs, built by hand, for the tests of what executes programs.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/backend.h"
#include "meshwright/program.h"

namespace meshwright::testing {

inline Mesh mesh_of(const std::vector<std::int64_t>& sizes) {
  Mesh mesh;
  for (const std::int64_t size : sizes) mesh.axes.push_back({size, 1e-6, 1e-9, "link"});
  return mesh;
}

// 0, 1, 2, ... from `first`.
inline Tensor count_up(const std::vector<std::int64_t>& shape, double first = 0, DType dtype = DType::float32) {
  Tensor tensor(TensorType{dtype, shape});
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, first + static_cast<double>(i));
  return tensor;
}

// Appends to a program. Sources of inputs and parameters are kept by their ids.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(const std::vector<std::int64_t>& mesh) { program.mesh = mesh_of(mesh); }

  ProgramValueId make(const std::string& name, const AtomShape& atoms, const TensorType& type,
                      const std::string& layout) {
    const Layout parsed = parse_layout(layout, atoms, program.mesh.rank()).value();
    program.values.push_back({name, {type, atoms, parsed}});
    return static_cast<ProgramValueId>(program.values.size() - 1);
  }

  ProgramValueId input(const std::string& name, Tensor whole, const std::string& layout) {
    const ProgramValueId value = make(name, whole_dimensions(whole.shape()), whole.type(), layout);
    program.inputs.push_back({SourceKind::user_input, add_source(std::move(whole)), value, 0});
    return value;
  }

  ProgramValueId parameter(const std::string& name, Tensor whole, const std::string& layout) {
    const ProgramValueId value = make(name, whole_dimensions(whole.shape()), whole.type(), layout);
    program.parameters.push_back({name, add_source(std::move(whole)), value, kNoId, program.type(value).layout});
    return value;
  }

  // A value of the same shape in another layout.
  ProgramValueId move(MoveKind kind, std::size_t axis, ProgramValueId from, const std::string& layout) {
    const ShardedType type = program.type(from);
    const ProgramValueId result = make(program.values[from].name + "'", type.atoms, type.type, layout);
    Instruction& instruction = program.instructions.emplace_back();
    instruction.operands.push_back({"", from, type.layout});
    instruction.results.push_back(result);
    instruction.action = MoveStep{{kind, static_cast<std::uint8_t>(axis), 0, false, false, program.type(result).layout}};
    return result;
  }

  // An op with one result of the type of its first operand, in the given layout.
  ProgramValueId compute(const std::string& op, const std::vector<ProgramValueId>& operands, const std::string& layout,
                         Attributes attributes = {}) {
    const ShardedType type = program.type(operands[0]);
    const ProgramValueId result = make(op + std::to_string(program.values.size()), type.atoms, type.type, layout);
    Instruction& instruction = program.instructions.emplace_back();
    instruction.action = Compute{.op = op, .attributes = std::move(attributes), .local = true};
    instruction.name = program.values[result].name;
    for (const ProgramValueId operand : operands) {
      instruction.operands.push_back(
          {"operand" + std::to_string(instruction.operands.size()), operand, program.type(operand).layout});
    }
    instruction.results.push_back(result);
    return result;
  }

  void update(std::uint32_t parameter, ProgramValueId gradient) {
    program.parameters[parameter].gradient = gradient;
    Instruction& instruction = program.instructions.emplace_back();
    instruction.action = Update{};
    instruction.phase = Phase::update;
    instruction.parameter = parameter;
    instruction.operands.push_back({"", gradient, program.type(gradient).layout});
  }

  void output(ProgramValueId value) { program.outputs.push_back({OutputKind::user_output, "", kNoId, value, 0}); }

  [[nodiscard]] BackendInput input_for(const OpTable& ops) const {
    return {program, ops, profile, nullptr, [this](ValueId id, std::int64_t) { return &sources.at(id); }, nullptr, {}};
  }

  Program program;
  CostProfile profile;
  std::map<ValueId, Tensor> sources;

 private:
  ValueId add_source(Tensor whole) {
    const auto id = static_cast<ValueId>(sources.size());
    sources.emplace(id, std::move(whole));
    return id;
  }
};

}  // namespace meshwright::testing
