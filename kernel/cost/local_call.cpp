#include "meshwright/local_call.h"

#include "meshwright/conversion.h"
#include "tensor/guarded.h"

namespace meshwright {

LocalBuilder::~LocalBuilder() = default;

ProgramValueId LocalBuilder::reduce(ProgramValueId value) { return reduce(value, false); }
ProgramValueId LocalBuilder::reduce_along(ProgramValueId value) { return reduce(value, true); }

ProgramValueId LocalBuilder::reduce(ProgramValueId value, bool along) {
  while (true) {
    Move move{MoveKind::all_reduce, 0, 0, false, false, type(value).layout};
    const std::size_t rank = move.result.mesh_rank();
    std::size_t axis = 0;
    while (axis < rank && !move.result[axis].is_partial()) ++axis;
    if (axis == rank) return value;
    move.axis = static_cast<std::uint8_t>(axis);
    const Placement partial = move.result[axis];
    for (; axis < rank; ++axis) {
      if (move.result[axis] != partial) continue;
      if (axis != move.axis) move.joined |= AxisSet{1} << axis;
      move.result.place(axis, Placement::replicate());
      if (rank > kMostJointAxes) break;
    }
    value = take(value, move, kNoId, along);
  }
}

ProgramValueId LocalBuilder::exchange(ProgramValueId value, std::size_t axis, std::size_t atom, ProgramValueId own) {
  Move move{MoveKind::all_to_all, static_cast<std::uint8_t>(axis), 0, false, false, type(value).layout};
  move.result.place(axis, Placement::shard(atom));
  return take(value, move, own, false);
}

ProgramValueId LocalBuilder::take(ProgramValueId value, const Move& move, ProgramValueId own, bool along) {
  ShardedType moved = type(value);
  moved.layout = move.result;
  ProgramValueId to = own;
  if (own == kNoId) to = make(std::move(moved));
  else retype(own, std::move(moved));
  take_move(value, move, to, along);
  return to;
}

void LocalCall::emit(Attributes attributes, RankAttributes rank_attributes) const {
  build.emit(call.node.op, call.node.operands, std::move(attributes), std::move(rank_attributes), call.node.results);
}

// What the header of op families declares of local calls stands here: op.h knows of no layouts.
Status OpFamily::localize(const LocalCall& call) const {
  const std::string where = call.call.node.op + " at '" + call.call.node.name + "'";
  return guarded([&] { return where + ": the op family"; }, [&]() -> Status {
    if (Status status = do_localize(call); !status) return add_context(where, status.error());
    return Done{};
  });
}

Status OpFamily::do_localize(const LocalCall& call) const {
  call.emit(call.call.node.attributes);
  return Done{};
}

}  // namespace meshwright
