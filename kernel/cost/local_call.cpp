#include "meshwright/local_call.h"

#include "meshwright/conversion.h"
#include "tensor/guarded.h"

namespace meshwright {

LocalBuilder::~LocalBuilder() = default;

ProgramValueId LocalBuilder::reduce(ProgramValueId value) {
  for (std::size_t axis = 0; axis < type(value).layout.mesh_rank(); ++axis) {
    if (type(value).layout[axis].is_partial()) value = move(value, MoveKind::all_reduce, axis, Placement::replicate(), kNoId);
  }
  return value;
}

ProgramValueId LocalBuilder::exchange(ProgramValueId value, std::size_t axis, std::size_t atom, ProgramValueId own) {
  return move(value, MoveKind::all_to_all, axis, Placement::shard(atom), own);
}

ProgramValueId LocalBuilder::move(ProgramValueId value, MoveKind kind, std::size_t axis, Placement placement, ProgramValueId own) {
  ShardedType moved = type(value);
  moved.layout.place(axis, placement);
  const Move move{kind, static_cast<std::uint8_t>(axis), 0, false, false, moved.layout};
  ProgramValueId to = own;
  if (own == kNoId) to = make(std::move(moved));
  else retype(own, std::move(moved));
  take_move(value, move, to);
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
