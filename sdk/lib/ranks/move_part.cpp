#include "move_part.h"

#include <algorithm>
#include <cstring>

#include "box_runs.h"
#include "split_mix.h"

namespace meshwright {

namespace {

// The axes along which a move exchanges: its own, and where such an axis isn't the innermost of its atom, those inside
// of it, whose shards then lie elsewhere.
std::vector<bool> involved_axes(const Move& move, const Layout& from, const Layout& to) {
  std::vector<bool> involved(from.mesh_rank(), false);
  const auto involve = [&](std::size_t axis) {
    involved[axis] = true;
    for (std::size_t inner = axis + 1; inner < from.mesh_rank(); ++inner) {
      for (const Layout* layout : {&from, &to}) {
        if ((*layout)[axis].is_shard() && (*layout)[inner] == (*layout)[axis]) involved[inner] = true;
      }
    }
  };
  for (std::size_t axis = 0; axis < from.mesh_rank(); ++axis) {
    if (move.goes_over(axis)) involve(axis);
  }
  if (move.kind == MoveKind::permute) involve(move.other_axis);
  return involved;
}

// The ranks that differ from `at` along the involved axes only, ascending.
std::vector<std::int64_t> group_of(const Mesh& mesh, std::vector<std::int64_t> at, const std::vector<bool>& involved) {
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
    if (involved[axis]) at[axis] = 0;
  }
  std::vector<std::int64_t> group;
  for (;;) {
    group.push_back(rank_at(mesh, at));
    std::size_t axis = mesh.rank();
    while (axis-- > 0) {
      if (!involved[axis]) continue;
      if (++at[axis] < mesh.axes[axis].size) break;
      at[axis] = 0;
    }
    if (axis > mesh.rank()) return group;  // wrapped around: that was the last
  }
}

// A rank's number among those that a move makes meet: row-major over its axes.
std::int64_t position_of(const Mesh& mesh, const std::vector<std::int64_t>& at, AxisSet axes) {
  std::int64_t position = 0;
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
    if ((axes >> axis & 1U) != 0) position = position * mesh.axes[axis].size + at[axis];
  }
  return position;
}

// A random number of either sign, away from 0, that depends on its arguments alone. In eighths, so that shares of numbers
// with few bits add up to them exactly: a mask made of integers is compared for equality later.
double random_weight(std::uint64_t seed, std::uint64_t index, std::uint64_t coordinate) {
  const std::uint64_t z = split_mix(seed + kSplitMixStep * (index + 1) + 0xd1b54a32d192ed03U * (coordinate + 1));
  const double size = 0.5 + static_cast<double>(z >> 61U) / 8;
  return coordinate == 0 || (z & 1U) != 0 ? -size : size;
}

// The weights of all coordinates sum to 1, and one is negative.
double share_of(std::uint64_t seed, std::size_t index, std::int64_t coordinate, std::int64_t coordinates) {
  if (coordinate + 1 < coordinates) return random_weight(seed, index, static_cast<std::uint64_t>(coordinate));
  double rest = 1;
  for (std::int64_t i = 0; i < coordinate; ++i) rest -= random_weight(seed, index, static_cast<std::uint64_t>(i));
  return rest;
}

template <class T>
void scale(std::span<const T> from, std::span<T> to, double factor) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<T>(from[i] * factor);
}

// `ranks` with `first` in front, if it is one of them.
std::vector<std::int64_t> prefer(std::vector<std::int64_t> ranks, std::int64_t first) {
  const auto found = std::ranges::find(ranks, first);
  if (found != ranks.end()) std::rotate(ranks.begin(), found, found + 1);
  return ranks;
}

// What `part` needs from the ranks `from`, each of which holds a box of the same tensor.
void add_pieces(const MovePart& part, const std::vector<std::int64_t>& from, bool adds, std::vector<Piece>& pieces) {
  std::vector<Box> seen;
  for (const std::int64_t rank : from) {
    Box held = box_of(part.from.layout, part.from.atoms, part.program.mesh, coordinates_of(part.program.mesh, rank));
    if (std::ranges::find(seen, held) != seen.end()) continue;
    seen.push_back(held);
    Box shared = intersect(part.target, held);
    pieces.push_back({rank, std::move(held), std::move(shared), adds});
  }
}

}  // namespace

Result<MovePart> move_part(const Program& program, const Instruction& instruction, std::int64_t rank) {
  const Move& move = *instruction.move();
  const ShardedType& from = program.type(instruction.operands[0].value);
  const ShardedType& to = program.type(instruction.results[0]);
  std::vector<std::int64_t> at = coordinates_of(program.mesh, rank);
  std::vector<std::int64_t> group = group_of(program.mesh, at, involved_axes(move, from.layout, to.layout));
  Box target = box_of(to.layout, to.atoms, program.mesh, at);
  MovePart part{program, move, from, to, rank, std::move(at), std::move(group), std::move(target), static_cast<std::size_t>(size_bytes(from.type.dtype)), nullptr};
  if (move.kind == MoveKind::all_reduce || move.kind == MoveKind::reduce_scatter) {
    part.combine = combine_for(from.type.dtype, from.layout[move.axis] == Placement::partial_max());
    if (!part.combine) return bad_input(std::string("ranks can't reduce ") + std::string(name(from.type.dtype)));
  }
  return part;
}

MovePart part_of(const MovePart& part, std::int64_t rank) {
  std::vector<std::int64_t> at = coordinates_of(part.program.mesh, rank);
  Box target = box_of(part.to.layout, part.to.atoms, part.program.mesh, at);
  return {part.program, part.move, part.from, part.to, rank, std::move(at), part.group, std::move(target), part.element_bytes, part.combine};
}

bool needs_others(const MovePart& part) {
  if (part.move.kind == MoveKind::keep_one) return false;
  return part.move.kind != MoveKind::slice || !part.to.layout.is_innermost(part.move.axis);
}

std::vector<Piece> pieces_of(const MovePart& part) {
  std::vector<Piece> pieces;
  if (!needs_others(part)) {
    add_pieces(part, {part.rank}, false, pieces);
    return pieces;
  }
  if (part.move.kind != MoveKind::reduce_scatter) {
    add_pieces(part, prefer(part.group, part.rank), false, pieces);
    return pieces;
  }
  const Mesh& mesh = part.program.mesh;
  const AxisSet axes = part.move.axes();
  const std::int64_t addends = mesh.along(axes).size;
  for (std::int64_t addend = 0; addend < addends; ++addend) {
    std::vector<std::int64_t> holders = part.group;
    std::erase_if(holders, [&](std::int64_t rank) { return position_of(mesh, coordinates_of(mesh, rank), axes) != addend; });
    add_pieces(part, prefer(std::move(holders), part.rank), addend > 0, pieces);
  }
  return pieces;
}

void take(const MovePart& part, const Piece& piece, const std::byte* source, std::byte* result) {
  for_each_run(piece.held, part.target, piece.part, [&](std::size_t there, std::size_t here, std::size_t count) {
    const std::byte* run = source + there * part.element_bytes;
    std::byte* place = result + here * part.element_bytes;
    if (piece.adds) {
      part.combine(place, run, count);
    } else {
      std::memcpy(place, run, count * part.element_bytes);
    }
  });
}

Segment segment_of(const MovePart& part, std::size_t member) {
  const auto elements = static_cast<std::size_t>(part.target.elements());
  const std::size_t begin = elements * member / part.group.size(), end = elements * (member + 1) / part.group.size();
  return {begin, end - begin};
}

void keep_one(const MovePart& part, const std::optional<Scatter>& scatter, const Tensor& source, Tensor& result) {
  const std::int64_t coordinate = part.at[part.move.axis];
  const DType dtype = part.from.type.dtype;
  if (scatter && (dtype == DType::float32 || dtype == DType::float64)) {
    const double share = share_of(scatter->seed, scatter->step, coordinate, part.program.mesh.axes[part.move.axis].size);
    if (dtype == DType::float32) {
      scale<float>(source.as<float>(), result.as<float>(), share);
    } else {
      scale<double>(source.as<double>(), result.as<double>(), share);
    }
  } else if (coordinate == 0) {
    std::memcpy(result.bytes().data(), source.bytes().data(), source.bytes().size());
  }
}

}  // namespace meshwright
