// What each rank executes, instruction by instruction. All ranks of a mesh run the same instructions; what depends on
// the rank stands in rank attributes. Every value has a layout, and every instruction says in which layouts it needs its
// operands, so that `validate` can prove that no collective is missing.
//
// Its instructions are those of one microbatch, forward and backward, and of the update: each stands once, and its order
// (step_order.h) says when it runs, and of which microbatch. Every microbatch has values of its own, but for those of the
// step: parameters, buffers and constants, and the sums of gradients.
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
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "meshwright/axis_choice.h"
#include "meshwright/conversion.h"
#include "meshwright/export.h"
#include "meshwright/fusion.h"
#include "meshwright/graph.h"
#include "meshwright/mesh.h"
#include "meshwright/op.h"
#include "meshwright/result.h"
#include "meshwright/shard.h"
#include "meshwright/step_order.h"
#include "meshwright/training.h"

namespace meshwright {

struct ProgramValue {
  std::string name;  // unique in the program
  ShardedType type;
  bool of_step = false;  // there is one in a step, not one in each microbatch
  bool operator==(const ProgramValue&) const = default;
};

// A conversion of a plan: its index, and its moves.
struct PlannedPath {
  std::uint32_t conversion = kNoId;  // index into the plan's conversions
  std::vector<Move> moves = {};
};

// What the kinds of instructions have of their own.

// An op.
struct Compute {
  std::string op = {};
  Attributes attributes = {};
  RankAttributes rank_attributes = {};
  std::vector<AxisChoice> axes = {};  // on whole shapes: what each mesh axis does
  bool local = false;                 // on one rank's shapes
  bool alias = false;                 // The results share the storage of operand 0.
  bool keeps_order = false;           // of an alias: its result is all of operand 0, element by element
  bool transposes = false;            // of an alias: its result is operand 0 with its last two dimensions exchanged
  std::uint32_t call = kNoId;         // index into Program::calls: in whose place one rank executes it; kNoId: it is the op itself
  FusedCall fused = {};               // as decided on the graph: what it leaves to the kernel that it is a part of
};

// The operand in the layout of the result; until the communication pass.
struct Convert {
  PlannedPath path;
};

// One step of a conversion, or of what one rank executes in the place of an op.
struct MoveStep {
  Move move;
  std::uint32_t conversion = kNoId;  // index into the plan's conversions; kNoId: it is inside an op
  std::uint32_t call = kNoId;        // as of Compute
  bool along = false;                // it takes no time of its own (LocalBuilder::reduce_along)
};

// The parameter in the layout of the result; until the parameter_shard pass.
struct LoadParameter {
  PlannedPath path;  // from the stored value
};

// The operand is the parameter's gradient of one microbatch; until the parameter_shard pass.
struct StoreGradient {
  PlannedPath path;  // to the reduced gradient
};

// Adds the second operand to the first, which is its result too, in place. With one operand: the sum begins with it and takes its
// storage over, so that the operand is there no longer.
struct Accumulate {};

// The operand, as the microbatch before left it in a buffer, becomes the result, which takes its storage over.
struct Carry {};

// The optimizer's step. Operands: the gradient and, where the state lies otherwise than the value (ZeRO-1 and 2), what the value
// holds there, which is changed in place.
struct Update {};

// What one stage of a pipeline hands to another one: a value of the model, or the gradient of one, or of a parameter that both have.
struct Message {
  std::string value;  // its name in the model
  bool gradient = false;
  std::uint32_t from = 0, to = 0;  // stages
  bool operator==(const Message&) const = default;
  auto operator<=>(const Message&) const = default;
};

// The operand goes to the ranks of another stage. Nobody waits until it is there.
struct Send {
  Message message;
};

// The result is what another stage sent, in the layout of the result: each rank takes its part from whoever has it.
struct Receive {
  Message message;
  bool travels = true;  // else the other stage is on the same devices
};

// The operands are not needed any more.
struct Free {};

enum class InstructionKind : std::uint8_t { compute, convert, move, load_parameter, store_gradient, accumulate, carry, update, send, receive, free };
// What an instruction does; in the order of InstructionKind.
using Action = std::variant<Compute, Convert, MoveStep, LoadParameter, StoreGradient, Accumulate, Carry, Update, Send, Receive, Free>;
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(InstructionKind::move), Action>, MoveStep>);
static_assert(std::variant_size_v<Action> == static_cast<std::size_t>(InstructionKind::free) + 1);

// In which microbatches an instruction runs.
enum class When : std::uint8_t {
  each,
  first,    // in the first one only
  later,    // in all but the first
  earlier,  // in all but the last
  last,     // in the last one only
};

MESHWRIGHT_API const char* name(InstructionKind kind);
MESHWRIGHT_API const char* name(When when);
MESHWRIGHT_API bool runs(When when, std::int64_t microbatch, std::int64_t microbatches);

// Each rank has two, which run at the same time. What is on one of them runs in the program's order. An instruction of the
// communication stream begins when all that stands before it on the compute stream is done; one of the compute stream waits for
// what it says (Instruction::waits), and for nothing else.
enum class Stream : std::uint8_t { compute, communication };

struct ProgramOperand {
  std::string name;  // by the op's schema
  ProgramValueId value = kNoId;
  Layout needed;
  bool operator==(const ProgramOperand&) const = default;
};

struct Instruction {
  Action action;
  Phase phase = Phase::forward;
  When when = When::each;
  bool again = false;       // Of a backward: it is part of a forward that runs again, or converts again (recompute.h).
  std::string name;         // of the node that it is part of
  std::string module_path;
  std::string node;         // The node of the forward graph whose forward or backward it serves; "" for the seed, updates, frees.
  // Index into Program::parameters: the one that it loads, gathers or updates, or whose gradient it reduces or adds up; kNoId: none.
  std::uint32_t parameter = kNoId;
  std::vector<ProgramOperand> operands;
  std::vector<ProgramValueId> results;
  // On the communication stream: a convert or move of a parameter or of its gradient, and the accumulate that adds up what such a
  // move reduced; sends.
  Stream stream = Stream::compute;
  // Of the compute stream, in a finished program: values whose storages the communication stream, as far as it stands before
  // this, must be done with: it makes what is read here, or still reads what is freed or changed here. They are of the microbatch
  // of the operands.
  std::vector<ProgramValueId> waits;

  [[nodiscard]] InstructionKind kind() const { return static_cast<InstructionKind>(action.index()); }
  // Null if it is of another kind.
  [[nodiscard]] const Compute* compute() const { return std::get_if<Compute>(&action); }
  [[nodiscard]] Compute* compute() { return std::get_if<Compute>(&action); }
  [[nodiscard]] const Move* move() const { return kind() == InstructionKind::move ? &std::get<MoveStep>(action).move : nullptr; }

  // Of a send or a receive; null if it is of another kind.
  [[nodiscard]] MESHWRIGHT_API const Message* message() const;

  // The call in whose place one rank executes it; kNoId: it stands in the place of none.
  [[nodiscard]] MESHWRIGHT_API std::uint32_t call() const;
  // The results share the storage of operand 0.
  [[nodiscard]] bool is_alias() const { return compute() != nullptr && compute()->alias; }
  // The first operand goes on as the result: it is there no longer, and nothing is copied.
  [[nodiscard]] bool takes_over() const { return kind() == InstructionKind::carry || (kind() == InstructionKind::accumulate && operands.size() == 1); }
  // The result is the first operand, changed.
  [[nodiscard]] bool in_place() const { return kind() == InstructionKind::accumulate && operands.size() == 2; }
  // That of the operands, where the instruction runs in this one.
  [[nodiscard]] std::int64_t operands_from(std::int64_t microbatch) const { return kind() == InstructionKind::carry ? microbatch - 1 : microbatch; }
};

struct ProgramParameter {
  std::string name;           // in the model
  ValueId source = kNoId;     // of the graph
  ProgramValueId value = kNoId;     // as it is stored from step to step
  ProgramValueId gradient = kNoId;  // in the layout of the state; kNoId until the parameter_shard pass, or if it has none
  Layout state;                     // of what the optimizer keeps
  ZeroStage zero = ZeroStage::none;
  bool regather = false;            // ZeRO-3: the gathered copy is dropped after the forward, and gathered again for the backward.
  bool prefetch = false;            // ZeRO-3: the gather starts beside the unit before (decision 039).
  ProgramValueId updated = kNoId;   // the value after the step; kNoId where the update changes `value` in place
  Layout reduced = {};              // to which gradients of microbatches, or their sum, are reduced
  PlannedPath settle = {};          // of the gradient, from `reduced` to `state`
  PlannedPath cut = {}, gather = {};  // of the value, from how it is stored to `state`, and back
};

// What is there when a step begins. A user's input is one in each microbatch; buffers and constants are of the step. A buffer
// that microbatches change is an input of microbatch 0, and carried from there on.
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
  ValueId buffer = kNoId;  // of the graph: the source that the next step finds changed; of a mutation
};

struct Program {
  std::string name;
  Mesh mesh;
  TrainingSettings training;
  StepOrder order;
  std::int64_t bucket_bytes = 25'000'000;  // in which gradients are reduced (Plan::bucket_bytes)
  std::int64_t room_bytes = 0;             // for what the communication stream still uses (Plan::room_bytes)
  std::vector<ProgramValue> values;
  std::vector<ProgramParameter> parameters;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramOutput> outputs;
  std::vector<Instruction> instructions;  // of the forward, of the backward, of the update
  // Ops on whole shapes, as they were before one rank's instructions took their place: several, or one with other operands or results.
  std::vector<Instruction> calls = {};

  [[nodiscard]] const ShardedType& type(ProgramValueId id) const { return values[id].type; }
  [[nodiscard]] TensorType local(ProgramValueId id) const { return local_type(values[id].type, mesh); }
  [[nodiscard]] std::int64_t local_bytes(ProgramValueId id) const { return meshwright::local_bytes(type(id).layout, type(id).atoms, mesh, size_bytes(type(id).type.dtype)); }
  // Where a value of a microbatch stands in a table with a row of all values for each microbatch; those of the step are in the first.
  [[nodiscard]] std::size_t place(ProgramValueId id, std::int64_t microbatch) const {
    return values[id].of_step ? id : static_cast<std::size_t>(microbatch) * values.size() + id;
  }
};

// The node that an instruction of kind compute stands for; its values are the program's. The second one has the rank
// attributes too, as they are at a rank's coordinates.
MESHWRIGHT_API Node node_of(const Instruction& instruction);
MESHWRIGHT_API Node node_of(const Instruction& instruction, const std::vector<std::int64_t>& coordinates);

// Appends to `instructions` what one rank executes of a compute on whole shapes; `program` gets its new values. Errors: the
// family's.
MESHWRIGHT_API Status localize(const OpFamily& family, const Instruction& compute, Program& program,
                               std::vector<Instruction>& instructions);

// An instruction as it runs in a step.
struct Occurrence {
  std::size_t instruction = 0;
  std::int64_t microbatch = 0;
  bool operator==(const Occurrence&) const = default;
};

// What runs in the given events, one after the other, of a step of so many microbatches.
MESHWRIGHT_API std::vector<Occurrence> occurrences(const Program& program, const std::vector<StepEvent>& events, std::int64_t microbatches);
// Of the whole step.
MESHWRIGHT_API std::vector<Occurrence> occurrences(const Program& program);
// How often an instruction runs in a step.
MESHWRIGHT_API std::int64_t times(const Program& program, const Instruction& instruction);

// Puts `free` after the last use of each value that is no parameter and no output: in each microbatch, and of a value of the step
// in the last one. Removes instructions whose results nobody uses. States what instructions wait for. What the communication
// stream uses last is freed when the computing waits for that anyway; before, if its room is needed, so that nothing is held beyond what the
// step's peak is without, or Program::room_bytes; and at the end of the phase, where a step has several microbatches.
MESHWRIGHT_API void place_frees(Program& program);

// Marks as `alias` the computing whose results are views of operand 0, as the op's family says of one rank's shapes
// (OpCost::alias). A view of a parameter that is read after the parameter's update, or handed out, stays a copy.
MESHWRIGHT_API void mark_views(Program& program, const OpTable& ops);

// For each value, the one whose storage it has: itself, unless it was made by an `alias`.
MESHWRIGHT_API std::vector<ProgramValueId> storages(const Program& program);

// Proves from the layouts that no collective is missing: that in the program's order every value is made before its first use and
// not used after it was freed; that each operand has the layout that its instruction needs; that each move is one that exists
// and ends where it says; that no output is partial and each parameter's gradient lies as the parameter does.
// Errors: bad_input that names the instruction, the value, both layouts, and the collective that would join them.
MESHWRIGHT_API Status validate(const Program& program);

// `validate`, and that no step is left to be done: no convert, no load_parameter, no store_gradient, no compute on whole
// shapes, an update for each parameter that has a gradient, and all waits: nothing is read before the communication stream has made
// it, and nothing freed or changed while that may still use it.
MESHWRIGHT_API Status validate_finished(const Program& program);

// The program as text, for people and golden tests.
MESHWRIGHT_API std::string to_string(const Program& program);

// Bytes that all ranks together send for one move of a value, by the moves' definitions: an all-reduce as a
// reduce-scatter and an all-gather; everything else fetches from its owner each element that a rank lacks, once. Of a receive: what
// its ranks are sent.
MESHWRIGHT_API std::int64_t sent_bytes(const Program& program, const Instruction& instruction);
// Of the whole program.
MESHWRIGHT_API std::int64_t sent_bytes(const Program& program);

// Bytes that the optimizer keeps for a parameter on one rank, from step to step; none for one without a gradient.
MESHWRIGHT_API std::int64_t optimizer_bytes(const Program& program, const ProgramParameter& parameter);

// Bytes that one rank holds after each of the step's occurrences, at most while it runs: parameters, optimizer state, inputs,
// and the storage of every value that was made and not freed: until the last value that shares it is freed. The peak is
// the largest.
MESHWRIGHT_API std::vector<std::int64_t> memory_curve(const Program& program);
// The same before the first of them.
MESHWRIGHT_API std::int64_t bytes_at_start(const Program& program);

}  // namespace meshwright
