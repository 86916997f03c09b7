// How an op family says what one rank executes where its op is sharded (DESIGN §2: "local literals", "local rewrite").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/op.h"
#include "meshwright/shard.h"

namespace meshwright {

struct Move;  // conversion.h

// Takes down what one rank executes of a call: into a program, or to sum up what it costs.
class MESHWRIGHT_API LocalBuilder {
 public:
  virtual ~LocalBuilder();

  // A new value, for an intermediate result.
  virtual ProgramValueId make(ShardedType type) = 0;
  // Gives a rank-private result of the call (TensorRule::own) the type that it has on this rank.
  virtual void retype(ProgramValueId own, ShardedType type) = 0;
  // One op on local shapes, which reads its operands in the layouts that they have.
  virtual void emit(std::string op, const std::vector<Operand>& operands, Attributes attributes, RankAttributes rank_attributes,
                    const std::vector<ProgramValueId>& results) = 0;
  [[nodiscard]] virtual const ShardedType& type(ProgramValueId value) const = 0;

  // The value, reduced over every axis over which it is partial: by one collective.
  ProgramValueId reduce(ProgramValueId value);
  // As `reduce`, a number that an emitted program sends along with what sums up the op's result, or knows since its forward: by a
  // collective that takes no time of its own.
  ProgramValueId reduce_along(ProgramValueId value);
  // The value, sharded by `axis` on another atom than before: each rank of the axis sends a part to each other one (all-to-all).
  // If `own` is given, a rank-private result of the call, the value becomes that.
  ProgramValueId exchange(ProgramValueId value, std::size_t axis, std::size_t atom, ProgramValueId own = kNoId);

 private:
  // Into `own` if that is given.
  ProgramValueId take(ProgramValueId value, const Move& move, ProgramValueId own, bool along);
  ProgramValueId reduce(ProgramValueId value, bool along);
  virtual void take_move(ProgramValueId from, const Move& move, ProgramValueId to, bool along) = 0;
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

}  // namespace meshwright
