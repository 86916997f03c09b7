// How an op family says what one rank executes where its op is sharded (DESIGN §2: "local literals", "local rewrite").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/op.h"
#include "meshwright/shard.h"

namespace meshwright {

struct Instruction;  // program.h
struct Program;
enum class MoveKind : std::uint8_t;  // conversion.h

// Appends what one rank executes to a program.
class MESHWRIGHT_API LocalBuilder {
 public:
  // `original` is the instruction that is rewritten; `program` receives new values, `instructions` the new instructions.
  LocalBuilder(Program& program, const Instruction& original, std::vector<Instruction>& instructions);

  // A new value, for an intermediate result.
  ProgramValueId make(ShardedType type);
  // Says how a result of the call really lies, which is the rank's own (TensorRule::own).
  void retype(ProgramValueId own, ShardedType type);
  // One op on local shapes. The operands' layouts are taken for what it needs.
  void emit(std::string op, const std::vector<Operand>& operands, Attributes attributes, RankAttributes rank_attributes,
            const std::vector<ProgramValueId>& results);
  // The value, reduced over every axis over which it is partial.
  ProgramValueId reduce(ProgramValueId value);
  // The value, which `axis` shards, sharded by it on another atom: each rank of the axis sends a part to each other one.
  // It becomes `own`, a result of the call that is the rank's own, if that is given.
  ProgramValueId exchange(ProgramValueId value, std::size_t axis, std::size_t atom, ProgramValueId own = kNoId);
  [[nodiscard]] const ShardedType& type(ProgramValueId value) const;

 private:
  ProgramValueId move(ProgramValueId value, MoveKind kind, std::size_t axis, Placement placement, ProgramValueId own = kNoId);

  Program& program_;
  const Instruction& original_;
  std::vector<Instruction>& instructions_;
};

// One sharded call. Ids of operands and results are values of the program.
struct LocalCall {
  const OpCall& call;                 // the whole op: attributes and types of the whole tensors
  std::vector<ShardedType> operands;  // as call.operands
  std::vector<ShardedType> results;
  const Mesh& mesh;
  LocalBuilder& build;

  // The operand's value, or kNoId if the call does not have it.
  [[nodiscard]] ProgramValueId operand(std::string_view name) const {
    const auto index = call.node.operand_index(name);
    return index ? call.node.operands[*index].value : kNoId;
  }
  [[nodiscard]] const ShardedType* type(std::string_view name) const {
    const auto index = call.node.operand_index(name);
    return index ? &operands[*index] : nullptr;
  }
  // The same op on local shapes, with these attributes.
  MESHWRIGHT_API void emit(Attributes attributes, RankAttributes rank_attributes = {}) const;
};

// Appends to `instructions` what one rank executes of a compute on whole shapes; `program` gets its new values. Errors: the
// family's.
MESHWRIGHT_API Status localize(const OpFamily& family, const Instruction& compute, Program& program,
                               std::vector<Instruction>& instructions);

}  // namespace meshwright
