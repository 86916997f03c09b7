#include "meshwright/conversion.h"

#include <algorithm>
#include <bit>

#include "tensor/guarded.h"

namespace meshwright {

const char* name(MoveKind kind) {
  switch (kind) {
    case MoveKind::slice: return "slice";
    case MoveKind::all_gather: return "all_gather";
    case MoveKind::all_to_all: return "all_to_all";
    case MoveKind::all_reduce: return "all_reduce";
    case MoveKind::reduce_scatter: return "reduce_scatter";
    case MoveKind::permute: return "permute";
    case MoveKind::keep_one: return "keep_one";
  }
  return "?";
}

namespace {

// Gathers the moves from one layout, leaving out those whose result does not fit the shape.
class MoveList {
 public:
  MoveList(const ConversionProblem& problem, const Layout& from) : problem_(problem), from_(from) {}

  void add(MoveKind kind, std::size_t axis, Placement target) {
    Move move;
    move.kind = kind;
    move.axis = static_cast<std::uint8_t>(axis);
    move.result = from_;
    move.result.place(axis, target);
    if (!fits(move.result, problem_.shape, problem_.mesh)) return;
    move.permutes_before = from_[axis].is_shard() && !from_.is_innermost(axis);
    move.permutes_after = target.is_shard() && !move.result.is_innermost(axis);
    moves_.push_back(move);
  }

  // Two axes of one size change what they shard; at least one shards. Blocks then move between devices that differ in
  // these two axes only, unless a third axis cuts one of the atoms and comes to stand elsewhere among its axes.
  void add_permute(std::size_t axis, std::size_t other) {
    for (std::size_t third = 0; third < from_.mesh_rank(); ++third) {
      if (third == axis || third == other || !from_[third].is_shard()) continue;
      if (from_[third] == from_[axis] || from_[third] == from_[other]) return;
    }
    Move move;
    move.kind = MoveKind::permute;
    move.axis = static_cast<std::uint8_t>(axis);
    move.other_axis = static_cast<std::uint8_t>(other);
    move.result = from_;
    move.result.place(axis, from_[other]);
    move.result.place(other, from_[axis]);
    moves_.push_back(move);
  }

  // Over the product of `axes`, each of which ends at its target. An axis outside of the product that lies further inside of an atom
  // would need a permutation: there is no such move.
  void add_joint(MoveKind kind, AxisSet axes, const std::vector<Placement>& targets) {
    Move move;
    move.kind = kind;
    move.axis = static_cast<std::uint8_t>(std::countr_zero(axes));
    move.joined = axes & (axes - 1);
    move.result = from_;
    std::size_t next = 0;
    for (std::size_t axis = 0; axis < from_.mesh_rank(); ++axis) {
      if ((axes >> axis & 1U) != 0) move.result.place(axis, targets[next++]);
    }
    if (!fits(move.result, problem_.shape, problem_.mesh)) return;
    const Layout& sharded = kind == MoveKind::all_gather ? from_ : move.result;
    for (std::size_t axis = 0; axis < from_.mesh_rank(); ++axis) {
      if ((axes >> axis & 1U) == 0 || !sharded[axis].is_shard()) continue;
      for (std::size_t inner = axis + 1; inner < from_.mesh_rank(); ++inner) {
        if ((axes >> inner & 1U) == 0 && sharded[inner] == sharded[axis]) return;
      }
    }
    moves_.push_back(std::move(move));
  }

  std::vector<Move> take() { return std::move(moves_); }

 private:
  const ConversionProblem& problem_;
  const Layout& from_;
  std::vector<Move> moves_;
};

// Collectives of one kind over several axes at once.
void add_joint_moves(MoveList& list, const Layout& from, std::size_t atoms) {
  const std::size_t rank = from.mesh_rank();
  if (rank > kMostJointAxes) return;
  for (AxisSet axes = 1; axes < AxisSet{1} << rank; ++axes) {
    const auto count = static_cast<std::size_t>(std::popcount(axes));
    const Placement first = from[static_cast<std::size_t>(std::countr_zero(axes))];
    if (count < 2 || first.is_replicate()) continue;
    bool alike = true;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      if ((axes >> axis & 1U) != 0) alike &= first.is_shard() ? from[axis].is_shard() : from[axis] == first;
    }
    if (!alike) continue;
    const std::vector<Placement> replicated(count, Placement::replicate());
    list.add_joint(first.is_shard() ? MoveKind::all_gather : MoveKind::all_reduce, axes, replicated);
    if (first.is_shard() || atoms == 0) continue;
    std::vector<std::size_t> chosen(count, 0);  // the atom of each axis, counted up like the digits of a number
    for (std::size_t digit = 0; digit < count;) {
      std::vector<Placement> targets;
      for (const std::size_t atom : chosen) targets.push_back(Placement::shard(atom));
      list.add_joint(MoveKind::reduce_scatter, axes, targets);
      for (digit = 0; digit < count && ++chosen[digit] == atoms; ++digit) chosen[digit] = 0;
    }
  }
}

double axis_permute_seconds(const ConversionProblem& problem, const Layout& layout, std::size_t axis, double bytes) {
  // The permutation runs over the axis and all inner ones on the same atom; the slowest of them binds.
  double slowest = 0;
  for (std::size_t other = axis; other < layout.mesh_rank(); ++other) {
    if (layout[other] != layout[axis]) continue;
    slowest = std::max(slowest, collective_seconds(CollectiveKind::permute, problem.mesh.axes[other], bytes));
  }
  return slowest;
}

}  // namespace

std::vector<Move> one_step_moves(const ConversionProblem& problem, const Layout& from) {
  MoveList list(problem, from);
  const std::size_t atoms = problem.shape.sizes.size();
  for (std::size_t axis = 0; axis < from.mesh_rank(); ++axis) {
    const Placement here = from[axis];
    if (here.is_replicate()) {
      for (std::size_t atom = 0; atom < atoms; ++atom) list.add(MoveKind::slice, axis, Placement::shard(atom));
      list.add(MoveKind::keep_one, axis, Placement::partial_sum());
    } else if (here.is_shard()) {
      list.add(MoveKind::all_gather, axis, Placement::replicate());
      for (std::size_t atom = 0; atom < atoms; ++atom) {
        if (atom != here.atom()) list.add(MoveKind::all_to_all, axis, Placement::shard(atom));
      }
    } else {
      list.add(MoveKind::all_reduce, axis, Placement::replicate());
      for (std::size_t atom = 0; atom < atoms; ++atom) list.add(MoveKind::reduce_scatter, axis, Placement::shard(atom));
    }
    for (std::size_t other = axis + 1; other < from.mesh_rank(); ++other) {
      const bool sharded = here.is_shard() || from[other].is_shard();
      const bool partial = here.is_partial() || from[other].is_partial();
      if (sharded && !partial && here != from[other] &&
          problem.mesh.axes[axis].size == problem.mesh.axes[other].size) {
        list.add_permute(axis, other);
      }
    }
  }
  add_joint_moves(list, from, atoms);
  return list.take();
}

std::optional<Move> find_move(const ConversionProblem& problem, const Layout& from, const Move& like) {
  for (const Move& move : one_step_moves(problem, from)) {
    if (move.kind == like.kind && move.axes() == like.axes() && move.other_axis == like.other_axis && move.result == like.result) return move;
  }
  return std::nullopt;
}

// Gathers from the innermost axis, and cuts from the outermost, so that no permutation is needed.
std::vector<Move> in_turn(const Layout& from, const Move& move) {
  if (move.joined == 0) return {move};
  std::vector<Move> moves;
  Move one{move.kind, 0, 0, false, false, from};
  for (std::size_t i = 0; i < from.mesh_rank(); ++i) {
    const std::size_t axis = move.kind == MoveKind::all_gather ? from.mesh_rank() - 1 - i : i;
    if (!move.goes_over(axis)) continue;
    one.axis = static_cast<std::uint8_t>(axis);
    one.result.place(axis, move.result[axis]);
    moves.push_back(one);
  }
  return moves;
}

std::vector<Move> joined(const ConversionProblem& problem, const Layout& from, const std::vector<Move>& moves) {
  std::vector<Move> made;
  Layout here = from;
  for (std::size_t begin = 0; begin < moves.size();) {
    Move best = moves[begin];
    std::size_t end = begin + 1;
    Move wider = best;
    double parts = move_seconds(problem, here, best);
    for (std::size_t i = end; i < moves.size() && moves[i].kind == best.kind && moves[i].kind != MoveKind::permute; ++i) {
      parts += move_seconds(problem, moves[i - 1].result, moves[i]);
      const AxisSet axes = wider.axes() | moves[i].axes();
      wider.axis = static_cast<std::uint8_t>(std::countr_zero(axes));
      wider.joined = axes & (axes - 1);
      wider.result = moves[i].result;
      const std::optional<Move> one = find_move(problem, here, wider);
      if (!one || move_seconds(problem, here, *one) > parts) continue;
      best = *one;
      end = i + 1;
    }
    here = best.result;
    made.push_back(std::move(best));
    begin = end;
  }
  return made;
}

static std::string listed(const Move& move, const char* last_separator, const char* separator) {
  const AxisSet axes = move.axes() | (move.kind == MoveKind::permute ? AxisSet{1} << move.other_axis : 0);
  std::string text;
  int left = std::popcount(axes);
  for (std::uint32_t axis = 0; left > 0; ++axis) {
    if ((axes >> axis & 1U) == 0) continue;
    text += std::to_string(axis) + (--left > 1 ? separator : left == 1 ? last_separator : "");
  }
  return text;
}

std::string axes_text(const Move& move) {
  const bool one = move.joined == 0 && move.kind != MoveKind::permute;
  return (one ? "axis " : "axes ") + listed(move, " and ", ", ");
}

std::string short_axes_text(const Move& move) { return listed(move, "+", "+"); }

// The share of a collective's latency that a tensor pays. A bucket holds what is gathered or reduced, whole.
static double alpha_share(const ConversionProblem& problem, double before, double after) {
  const std::int64_t bucket = std::max<std::int64_t>(1, std::min(problem.profile.bucket_bytes, problem.profile.parameter_bytes));
  return problem.packed ? std::min(1.0, std::max(before, after) / static_cast<double>(bucket)) : 1.0;
}

static bool are_alike(const Mesh& mesh, const Move& move) {
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
    const MeshAxis &here = mesh.axes[axis], &first = mesh.axes[move.axis];
    if (move.goes_over(axis) && (here.alpha_seconds != first.alpha_seconds || here.beta_seconds_per_byte != first.beta_seconds_per_byte)) return false;
  }
  return true;
}

// A product of axes, over one after the other: outwards or inwards, since each device can put the parts in their order by itself.
static double seconds_in_turn(const ConversionProblem& problem, const Move& move, CollectiveKind kind, double bytes) {
  const Mesh& mesh = problem.mesh;
  double outwards = 0, inwards = 0, bytes_out = bytes, bytes_in = bytes;
  const auto take = [&](std::size_t axis, double& here, double& seconds) {
    if (!move.goes_over(axis)) return;
    const double before = here;
    const auto size = static_cast<double>(mesh.axes[axis].size);
    here *= kind == CollectiveKind::all_gather ? size : kind == CollectiveKind::reduce_scatter ? 1 / size : 1;
    seconds += collective_seconds(kind, mesh.axes[axis], before, alpha_share(problem, before, here));
  };
  for (std::size_t i = 0; i < mesh.rank(); ++i) {
    take(i, bytes_in, inwards);
    take(mesh.rank() - 1 - i, bytes_out, outwards);
  }
  return std::min(outwards, inwards);
}

namespace {

// What a device holds of the tensor before a move and behind it.
struct MovedBytes {
  MovedBytes(const ConversionProblem& problem, const Layout& from, const Move& move) : before(held(problem, from)), after(held(problem, move.result)) {}
  double before, after;

 private:
  static double held(const ConversionProblem& problem, const Layout& layout) {
    return static_cast<double>(local_bytes(layout, problem.shape, problem.mesh, problem.element_bytes));
  }
};

double seconds_to_move(const ConversionProblem& problem, const Layout& from, const Move& move, const MovedBytes& bytes) {
  const double before = bytes.before, after = bytes.after;
  const double share = alpha_share(problem, before, after);
  const auto collective = [&](CollectiveKind kind) {
    if (move.joined == 0) return collective_seconds(kind, problem.mesh.axes[move.axis], before, share);
    const double at_once = collective_seconds(kind, problem.mesh.along(move.axes()), before, share);
    return are_alike(problem.mesh, move) ? std::min(at_once, seconds_in_turn(problem, move, kind, before)) : at_once;
  };
  double seconds = 0;
  switch (move.kind) {
    case MoveKind::slice:
      seconds = compute_seconds(problem.profile, {.bytes = 2 * after});
      if (problem.packed) seconds -= problem.profile.device.launch_seconds;  // part of filling the bucket
      break;
    case MoveKind::all_gather: seconds = collective(CollectiveKind::all_gather); break;
    case MoveKind::all_to_all: seconds = collective(CollectiveKind::all_to_all); break;
    case MoveKind::all_reduce: seconds = collective(CollectiveKind::all_reduce); break;
    case MoveKind::reduce_scatter: seconds = collective(CollectiveKind::reduce_scatter); break;
    case MoveKind::permute:
      seconds = std::max(collective(CollectiveKind::permute),
                         collective_seconds(CollectiveKind::permute, problem.mesh.axes[move.other_axis], before));
      break;
    case MoveKind::keep_one: break;
  }
  if (move.permutes_before) seconds += axis_permute_seconds(problem, from, move.axis, before);
  if (move.permutes_after) seconds += axis_permute_seconds(problem, move.result, move.axis, after);
  return seconds;
}

}  // namespace

double move_seconds(const ConversionProblem& problem, const Layout& from, const Move& move) {
  return seconds_to_move(problem, from, move, MovedBytes(problem, from, move));
}

MovePrice move_price(const ConversionProblem& problem, const Layout& from, const Move& move) {
  const DeviceSpec& device = problem.profile.device;
  const MovedBytes bytes(problem, from, move);
  const Ticks ticks = to_ticks(seconds_to_move(problem, from, move, bytes));
  MovePrice price{ticks + 1, 0};
  if (ticks == 0) return price;
  if (move.kind != MoveKind::slice) {
    price.host_ticks = to_ticks(alpha_share(problem, bytes.before, bytes.after) * device.host_collective_seconds);
  } else if (!problem.packed) {  // else part of filling the bucket
    price.host_ticks = to_ticks(device.host_launch_seconds);
  }
  return price;
}

ConversionSearch::~ConversionSearch() = default;

namespace {

std::string describe(const ConversionProblem& problem, const Layout& from, const Layout& to) {
  return "conversion " + to_string(from, problem.shape) + " -> " + to_string(to, problem.shape);
}

Status check_path(const ConversionProblem& problem, const Layout& from, const Layout& to, const ConversionPath& path) {
  const std::string what = describe(problem, from, to);
  Layout here = from;
  Ticks sum = 0;
  for (const Move& move : path.moves) {
    if (!fits(move.result, problem.shape, problem.mesh)) return plugin_failed(what + ": a step does not fit the shape");
    sum += move_price(problem, here, move).ticks;
    here = move.result;
  }
  if (here != to) return plugin_failed(what + ": the path ends at " + to_string(here, problem.shape));
  if (sum != path.ticks) return plugin_failed(what + ": the cost is not the sum of the steps");
  return Done{};
}

}  // namespace

Result<ConversionPath> ConversionSearch::find(const ConversionProblem& problem, const Layout& from,
                                              const Layout& to) const {
  if (!fits(from, problem.shape, problem.mesh) || !fits(to, problem.shape, problem.mesh)) {
    return bad_input(describe(problem, from, to) + ": a layout does not fit the shape");
  }
  return guarded([&] { return describe(problem, from, to) + ": the plugin"; }, [&] {
    Result<ConversionPath> path = do_find(problem, from, to);
    if (!path) return path;
    if (Status status = check_path(problem, from, to, *path); !status) return Result<ConversionPath>(status.error());
    return path;
  });
}

Result<std::vector<PathPrice>> ConversionSearch::price_all(const ConversionProblem& problem, std::span<const Layout> layouts) const {
  return guarded([] { return std::string("conversion prices: the plugin"); }, [&]() -> Result<std::vector<PathPrice>> {
    Result<std::vector<PathPrice>> prices = do_price_all(problem, layouts);
    if (prices && prices->size() != layouts.size() * layouts.size()) {
      return plugin_failed("conversion prices: one is needed for each pair of layouts");
    }
    return prices;
  });
}

Result<std::vector<PathPrice>> ConversionSearch::do_price_all(const ConversionProblem& problem, std::span<const Layout> layouts) const {
  std::vector<PathPrice> prices;
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      Result<ConversionPath> path = find(problem, from, to);
      if (!path && path.error().code != ErrorCode::infeasible) return path.error();
      PathPrice& price = prices.emplace_back();
      if (!path) continue;
      price.ticks = path->ticks;
      const Layout* here = &from;
      for (const Move& move : path->moves) {
        price.host_ticks += move_price(problem, *here, move).host_ticks;
        here = &move.result;
      }
    }
  }
  return prices;
}

Result<const ConversionPath*> ConversionPaths::find(const ConversionProblem& problem, const Layout& from, const Layout& to) {
  static const ConversionPath kNothing;
  if (from == to) return &kNothing;
  const auto [found, inserted] = paths_.try_emplace(
      {problem.shape.sizes, problem.shape.paddable, problem.element_bytes, problem.packed, from, to});
  if (inserted) {
    Result<ConversionPath> path = search_.find(problem, from, to);
    if (!path) return path.error();
    found->second = std::move(*path);
  }
  return &found->second;
}

}  // namespace meshwright
