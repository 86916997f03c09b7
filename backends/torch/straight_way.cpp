#include "straight_way.h"

#include <algorithm>

namespace meshwright::torch {

Result<std::vector<Move>> straight_way(const ShardedType& from, const Layout& to, const Mesh& mesh, const CostProfile& profile) {
  const ConversionProblem problem{mesh, from.atoms, profile};
  std::vector<Move> way;
  Layout here = from.layout;
  const auto step = [&](std::size_t axis, Placement placement) {
    Layout wanted = here;
    wanted.place(axis, placement);
    const std::vector<Move> all = one_step_moves(problem, here);
    const auto move = std::ranges::find_if(all, [&](const Move& each) { return each.kind != MoveKind::permute && each.result == wanted; });
    if (move == all.end()) return false;
    way.push_back(*move);
    here = wanted;
    return true;
  };
  for (std::size_t axis = mesh.rank(); axis-- > 0;) {
    if (here[axis] == to[axis] || here[axis].is_replicate() || step(axis, to[axis])) continue;
    step(axis, Placement::replicate());
  }
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
    if (here[axis] == to[axis] || step(axis, to[axis])) continue;
    return internal_error("there is no way from " + to_string(from.layout, from.atoms) + " to " + to_string(to, from.atoms));
  }
  return joined(problem, from.layout, way);
}

}  // namespace meshwright::torch
