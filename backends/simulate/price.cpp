#include "price.h"

#include <algorithm>
#include <optional>

namespace meshwright {

namespace {

// How many ranks share the causal factor: of its rows the last rank has more below the diagonal than its share, and the
// slowest is what is priced. Read off a dimension that is this factor alone.
double shards_of(FactorId factor, const Rule& rule, const Program& program, const Instruction& instruction) {
  for (std::size_t i = 0; i < rule.operands.size(); ++i) {
    const ShardedType& type = program.type(instruction.operands[i].value);
    const std::vector<std::int64_t> local = local_shape(type.layout, type.atoms, program.mesh);
    for (std::size_t d = 0; d < local.size(); ++d) {
      if (rule.operands[i].dimensions[d] != std::vector<FactorId>{factor}) continue;
      return static_cast<double>(type.type.shape[d]) / static_cast<double>(local[d]);
    }
  }
  return 1;
}

double flops_of(const OpCost& cost, const Rule& rule, const Program& program, const Instruction& instruction) {
  double sum = 0;
  for (const WorkTerm& term : cost.forward) {
    double flops = term.flops;
    for (const FactorId factor : term.factors) flops *= static_cast<double>(rule.factors[factor].size);
    if (term.is_causal) {
      const double shards = shards_of(term.causal, rule, program, instruction);
      flops *= (2 * shards - 1) / (2 * shards);
    }
    sum += flops;
  }
  return sum;
}

// `node` is the instruction's, at the first rank.
OpCall local_call(const Program& program, const Instruction& instruction, const Node& node) {
  OpCall call{node, {}, {}};
  for (const ProgramOperand& operand : instruction.operands) call.operands.push_back(program.local(operand.value));
  for (const ProgramValueId result : instruction.results) call.results.push_back(program.local(result));
  return call;
}

DType working_dtype(const OpCall& call) {
  for (const auto* tensors : {&call.operands, &call.results}) {
    for (const TensorType& type : *tensors) {
      if (is_floating(type.dtype)) return type.dtype;
    }
  }
  return DType::float32;
}

double compute_op_seconds(const BackendInput& input, const Instruction& instruction) {
  const Program& program = input.program;
  const Node node = node_of(instruction, std::vector<std::int64_t>(program.mesh.rank(), 0));
  const OpCall call = local_call(program, instruction, node);
  // What nobody knows, or knows only on whole shapes, at least reads and writes.
  OpCost cost;
  double flops = 0;
  if (const OpFamily* family = input.ops.find(call.node.op)) {
    const Result<Rule> rule = family->rule(call);
    if (const Result<OpCost> stated = rule ? family->cost(call, *rule) : Result<OpCost>(rule.error())) {
      cost = *stated;
      flops = flops_of(cost, *rule, program, instruction);
    }
  }
  if (cost.alias) return 0;
  Work work;
  work.dtype = working_dtype(call);
  (cost.matrix ? work.matrix_flops : work.vector_flops) = flops;
  double written = 0;
  for (const TensorType& type : call.results) written += static_cast<double>(type.bytes());
  work.bytes = written;
  for (const TensorType& type : call.operands) {
    const auto bytes = static_cast<double>(type.bytes());
    work.bytes += cost.gathers ? std::min(bytes, written) : bytes;
  }
  return compute_seconds(input.profile, work);
}

double move_instruction_seconds(const BackendInput& input, const Instruction& instruction) {
  const ShardedType& from = input.program.type(instruction.operands[0].value);
  const ConversionProblem problem{input.program.mesh, from.atoms, input.profile, size_bytes(from.type.dtype),
                                  instruction.hides};
  return move_seconds(problem, from.layout, instruction.move);
}

// Part of one update of all parameters: no launch for each.
double update_seconds(const BackendInput& input, const Instruction& instruction) {
  const ProgramParameter& parameter = input.program.parameters[instruction.parameter];
  const DType dtype = input.program.type(parameter.value).type.dtype;
  const std::int64_t bytes = input.program.local(parameter.gradient).elements() * input.program.training.step_bytes(dtype);
  const double seconds = compute_seconds(input.profile, {.bytes = static_cast<double>(bytes), .dtype = dtype});
  return std::max(0.0, seconds - input.profile.device.launch_seconds);
}

}  // namespace

Result<double> seconds_of(const BackendInput& input, const Instruction& instruction) {
  switch (instruction.kind) {
    case InstructionKind::compute:
      return compute_op_seconds(input, instruction);
    case InstructionKind::move:
      return move_instruction_seconds(input, instruction);
    case InstructionKind::accumulate:
      return compute_seconds(input.profile, {.bytes = 3 * static_cast<double>(input.program.local_bytes(instruction.results[0]))});
    case InstructionKind::update:
      return update_seconds(input, instruction);
    case InstructionKind::free:
      return 0.0;
    case InstructionKind::convert:
    case InstructionKind::load_parameter:
    case InstructionKind::store_gradient:
      break;
  }
  return bad_input("the program is not finished at '" + instruction.name + "'; run all passes before it");
}

}  // namespace meshwright
