// What each rank executes, instruction by instruction. All ranks of a mesh run the same instructions; what depends on
// the rank stands in rank attributes. Every value has a layout, and every instruction says in which layouts it needs its
// operands, so that `validate` can prove that no collective is missing.
//
// A program is made in steps (DESIGN §2, "Program and backends"):
//   lower            computing on whole shapes, `convert` where a value has another layout than its user needs,
//                    `load_parameter` and `store_gradient` where a parameter meets the computing
//   parameter_shard  a pass: gathers of stored parameters, sums and reductions of their gradients, updates
//   communication    a pass: a `convert` becomes its moves
//   reshape          a pass: computing on one rank's shapes, and local rewrites (MAP §6.1)
//   finish           views marked, `free` after each last use, then validate
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "meshwright/axis_choice.h"
#include "meshwright/conversion.h"
#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/mesh.h"
#include "meshwright/op.h"
#include "meshwright/result.h"
#include "meshwright/shard.h"
#include "meshwright/training.h"

namespace meshwright {

struct ProgramValue {
  std::string name;  // unique in the program
  ShardedType type;
  // The layout in which autograd yields the value's gradient; only in what `lower_forward` gives.
  std::optional<Layout> gradient = std::nullopt;
  bool operator==(const ProgramValue&) const = default;
};

enum class InstructionKind : std::uint8_t {
  compute,         // an op
  convert,         // the operand in the layout of the result; until the communication pass
  move,            // one step of a conversion
  load_parameter,  // the parameter in the layout of the result; until the parameter_shard pass
  store_gradient,  // the operand is the parameter's gradient of one microbatch; until the parameter_shard pass
  accumulate,      // adds the second operand to the first, in place: the result shares the first one's storage
  update,          // the optimizer's step; operands: the gradient and, where the state lies otherwise than the value
                   // (ZeRO-1 and 2), what the value holds there, which is changed in place
  free,            // the operands are not needed any more
};

enum class Phase : std::uint8_t { forward, backward, update };

MESHWRIGHT_API const char* name(InstructionKind kind);
MESHWRIGHT_API const char* name(Phase phase);

struct ProgramOperand {
  std::string name;  // by the op's schema
  ProgramValueId value = kNoId;
  Layout needed;
  bool operator==(const ProgramOperand&) const = default;
};

struct Instruction {
  InstructionKind kind = InstructionKind::compute;
  Phase phase = Phase::forward;
  std::string name;         // of the node that it is part of
  std::string module_path;
  std::string node;         // The node of the forward graph whose forward or backward it serves; "" for the seed, updates, frees.
  std::string op;           // of compute
  std::vector<ProgramOperand> operands;
  std::vector<ProgramValueId> results;
  Attributes attributes;            // of compute
  RankAttributes rank_attributes;
  std::vector<AxisChoice> axes;     // of compute on whole shapes: what each mesh axis does
  bool local = false;               // of compute: on one rank's shapes
  bool alias = false;               // of compute: the results share the storage of operand 0
  Move move;                        // of move
  std::uint32_t parameter = kNoId;  // of load_parameter, store_gradient and update: index into Program::parameters
  // Runs on the communication stream, concurrently with computing: a convert or move of a parameter or of its gradient, and the
  // accumulate that adds up what such a move reduced.
  bool hides = false;
  std::vector<Move> moves;          // of convert, load_parameter and store_gradient: from the operand, or the stored value, to
                                    // the result, or the reduced gradient
  std::uint32_t conversion = kNoId;  // of these and of move: index into the plan's conversions; kNoId: it is inside an op
};

// A conversion of a plan: its index, and its moves.
struct PlannedPath {
  std::uint32_t conversion = kNoId;
  std::vector<Move> moves = {};
};

struct ProgramParameter {
  std::string name;           // in the model
  ValueId source = kNoId;     // of the graph
  ProgramValueId value = kNoId;     // as it is stored from step to step
  ProgramValueId gradient = kNoId;  // in the layout of the state; kNoId until the parameter_shard pass, or if it has none
  Layout state;                     // of what the optimizer keeps
  ZeroStage zero = ZeroStage::none;
  bool regather = false;            // ZeRO-3: the gathered copy is dropped after the forward, and gathered again for the backward.
  bool prefetch = false;            // ZeRO-3: the gather starts one op ahead of the first op that uses the value.
  ProgramValueId updated = kNoId;   // the value after the step; kNoId where the update changes `value` in place
  Layout reduced = {};              // to which gradients of microbatches, or their sum, are reduced
  PlannedPath settle = {};          // of the gradient, from `reduced` to `state`
  PlannedPath cut = {}, gather = {};  // of the value, from how it is stored to `state`, and back
};

// Microbatches are numbered from 0. Buffers and constants are inputs of microbatch 0 and stay resident for all of them.
struct ProgramInput {
  SourceKind kind = SourceKind::user_input;
  ValueId source = kNoId;  // of the graph; each layout in which it is used is an input of its own
  ProgramValueId value = kNoId;
  std::int64_t microbatch = 0;
};

// What a step yields: the loss of each microbatch, and what the last microbatch leaves in buffers. Other results of the model
// are outputs only where there is a single microbatch.
struct ProgramOutput {
  OutputKind kind = OutputKind::user_output;
  std::string target;     // the buffer, for a mutation
  ValueId source = kNoId;  // of the graph
  ProgramValueId value = kNoId;
  std::int64_t microbatch = 0;
};

struct Program {
  std::string name;
  Mesh mesh;
  TrainingSettings training;
  std::vector<ProgramValue> values;
  std::vector<ProgramParameter> parameters;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramOutput> outputs;
  std::vector<Instruction> instructions;

  [[nodiscard]] const ShardedType& type(ProgramValueId id) const { return values[id].type; }
  [[nodiscard]] TensorType local(ProgramValueId id) const { return local_type(values[id].type, mesh); }
  [[nodiscard]] std::int64_t local_bytes(ProgramValueId id) const { return local(id).bytes(); }
};

// The node that an instruction of kind compute stands for; its values are the program's. The second one has the rank
// attributes too, as they are at a rank's coordinates.
MESHWRIGHT_API Node node_of(const Instruction& instruction);
MESHWRIGHT_API Node node_of(const Instruction& instruction, const std::vector<std::int64_t>& coordinates);

// Appends to `instructions` what one rank executes of a compute on whole shapes; `program` gets its new values. Errors: the
// family's.
MESHWRIGHT_API Status localize(const OpFamily& family, const Instruction& compute, Program& program,
                               std::vector<Instruction>& instructions);

// Puts `free` after the last use of each value that is no parameter and no output. Removes instructions whose results
// nobody uses.
MESHWRIGHT_API void place_frees(Program& program);

// Marks as `alias` the computing whose results are views of operand 0, as the op's family says of one rank's shapes
// (OpCost::alias). A view of a parameter that is read after the parameter's update, or handed out, stays a copy.
MESHWRIGHT_API void mark_views(Program& program, const OpTable& ops);

// For each value, the one whose storage it has: itself, unless it was made by an `alias`.
MESHWRIGHT_API std::vector<ProgramValueId> storages(const Program& program);

// Proves from the layouts that no collective is missing: that every value is made before its first use and not used
// after it was freed; that each operand has the layout that its instruction needs; that each move is one that exists
// and ends where it says; that no output is partial and each parameter's gradient lies as the parameter does.
// Errors: bad_input that names the instruction, the value, both layouts, and the collective that would join them.
MESHWRIGHT_API Status validate(const Program& program);

// `validate`, and that no step is left to be done: no convert, no load_parameter, no store_gradient, no compute on whole
// shapes, and an update for each parameter that has a gradient.
MESHWRIGHT_API Status validate_finished(const Program& program);

// The program as text, for people and golden tests.
MESHWRIGHT_API std::string to_string(const Program& program);

// Bytes that all ranks together send for one move of a value, by the moves' definitions: an all-reduce as a
// reduce-scatter and an all-gather; everything else fetches from its owner each element that a rank lacks, once.
MESHWRIGHT_API std::int64_t sent_bytes(const Program& program, const Instruction& move);
// Of the whole program.
MESHWRIGHT_API std::int64_t sent_bytes(const Program& program);

// Bytes that the optimizer keeps for a parameter on one rank, from step to step; none for one without a gradient.
MESHWRIGHT_API std::int64_t optimizer_bytes(const Program& program, const ProgramParameter& parameter);

// Bytes that one rank holds after each instruction, at most while it runs: parameters, optimizer state, inputs, and the
// storage of every value that was made and not freed: until the last value that shares it is freed. The peak is the
// largest.
MESHWRIGHT_API std::vector<std::int64_t> memory_curve(const Program& program);

}  // namespace meshwright
