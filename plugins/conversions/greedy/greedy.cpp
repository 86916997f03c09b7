// MAP's Algorithm 1 (§4.3): from the one-step transforms of the current layout take the one that differs least from
// the target, until nothing differs. Two things the paper leaves open are settled here. Partial values are resolved
// first, each axis to where the target wants it. And the algorithm must end: as printed, min_diff is reset in every
// round, so that two layouts can call each other best for ever; here a step must lower the difference, and where none
// does, the first axis out of place is gathered, which happens at most once for each axis.
#include <limits>

#include "meshwright/conversion.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

// The paper's weights: gathering crosses devices, sharding does not, and each further step is punished.
constexpr int kGather = 3;
constexpr int kShard = 1;
constexpr int kStepPenalty = 1;

// dim_diff(s[i], t[i]) of the paper: gather the axes that are too many, shard those that lack.
int difference(const ConversionProblem& problem, const Layout& from, const Layout& to) {
  int sum = 0;
  for (std::size_t atom = 0; atom < problem.shape.sizes.size(); ++atom) {
    int gathers = 0;
    int shards = 0;
    for (std::size_t axis = 0; axis < from.mesh_rank(); ++axis) {
      const bool here = from[axis] == Placement::shard(atom);
      const bool wanted = to[axis] == Placement::shard(atom);
      if (here && !wanted) ++gathers;
      if (!here && wanted) ++shards;
    }
    const int steps = gathers + shards;
    sum += gathers * kGather + shards * kShard + (steps > 1 ? (steps - 1) * kStepPenalty : 0);
  }
  for (std::size_t axis = 0; axis < from.mesh_rank(); ++axis) {
    if (from[axis].is_partial() != to[axis].is_partial()) sum += kGather;
  }
  return sum;
}

class Greedy final : public ConversionSearch {
 private:
  Result<ConversionPath> do_find(const ConversionProblem& problem, const Layout& from, const Layout& to) const override {
    ConversionPath path;
    Layout here = from;
    const auto take = [&](const Move& move) {
      path.ticks += move_price(problem, here, move).ticks;
      path.moves.push_back(move);
      here = move.result;
    };
    resolve_partials(problem, to, here, take);
    while (here != to) {
      const std::vector<Move> moves = one_step_moves(problem, here);
      const Move* best = nullptr;
      int least = difference(problem, here, to);
      for (const Move& move : moves) {
        // The paper's transforms are all-gather, shard and all-to-all; a value is made partial where the target is.
        if (move.kind == MoveKind::permute || move.joined != 0) continue;
        if (move.kind == MoveKind::keep_one && !to[move.axis].is_partial()) continue;
        if (const int diff = difference(problem, move.result, to); diff < least) {
          least = diff;
          best = &move;
        }
      }
      if (!best) best = gather_first(moves, here, to);
      if (!best) return infeasible("greedy conversion: no one-step transform comes nearer to the target");
      take(*best);
    }
    return path;
  }

  template <class Take>
  static void resolve_partials(const ConversionProblem& problem, const Layout& to, const Layout& here, Take take) {
    for (std::size_t axis = 0; axis < here.mesh_rank(); ++axis) {
      if (!here[axis].is_partial() || here[axis] == to[axis]) continue;
      const std::vector<Move> moves = one_step_moves(problem, here);
      const Move* chosen = nullptr;
      for (const Move& move : moves) {
        if (move.axis != axis || move.joined != 0) continue;
        if (move.kind == MoveKind::all_reduce && !chosen) chosen = &move;
        if (move.kind == MoveKind::reduce_scatter && move.result[axis] == to[axis]) chosen = &move;
      }
      take(Move(*chosen));
    }
  }

  static const Move* gather_first(const std::vector<Move>& moves, const Layout& here, const Layout& to) {
    for (const Move& move : moves) {
      if (move.kind == MoveKind::all_gather && here[move.axis] != to[move.axis]) return &move;
    }
    return nullptr;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("conversions", "greedy", "0.1.0", "Apache-2.0", "MAP's Algorithm 1: the one-step transform that differs least",
                  nullptr, nullptr, 0, (create_plugin<ConversionSearch, Greedy>), destroy_plugin<ConversionSearch>)

}  // namespace meshwright
