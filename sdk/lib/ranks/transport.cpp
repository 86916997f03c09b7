#include "transport.h"

#include <algorithm>
#include <cstring>

#include "box_runs.h"
#include "combine.h"
#include "split_mix.h"

namespace meshwright {

struct Transport::Task {
  const Move& move;
  const ShardedType& from;
  const ShardedType& to;
  std::int64_t rank = 0;
  std::size_t step = 0;  // of the run, which is the same one for all ranks
  std::vector<std::int64_t> at;     // the rank's coordinates
  std::vector<std::int64_t> group;  // the ranks that hold what it needs, ascending, itself included
  Box target;                       // what it needs
  std::size_t element_bytes = 0;
  Combine combine = nullptr;

};

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

}  // namespace

Transport::Transport(const Program& program, Meeting& meeting, std::optional<std::uint64_t> scatter_partials, AmongRanks among)
    : program_(program),
      meeting_(meeting),
      scatter_partials_(scatter_partials),
      desks_(to_index(program.mesh.devices())),
      among_(std::move(among)) {}

bool Transport::meet(const Task& task, int step) {
  Meeting::Place place{among_.steps.empty() ? task.step : among_.steps[task.step], step, task.group};
  for (std::int64_t& rank : place.ranks) rank += among_.first;
  return meeting_.wait(among_.first + task.rank, place);
}

Result<bool> Transport::move(std::int64_t rank, std::size_t step, const Instruction& instruction, const Tensor& source, Tensor& result) {
  const Move& move = *instruction.move();
  const ShardedType& from = program_.type(instruction.operands[0].value);
  const ShardedType& to = program_.type(instruction.results[0]);
  const std::vector<std::int64_t> at = coordinates_of(program_.mesh, rank);
  Task task{move,
            from,
            to,
            rank,
            step,
            at,
            group_of(program_.mesh, at, involved_axes(move, from.layout, to.layout)),
            box_of(to.layout, to.atoms, program_.mesh, at),
            to_index(size_bytes(from.type.dtype)),
            nullptr};
  const Placement reduced = from.layout[move.axis];
  if (move.kind == MoveKind::all_reduce || move.kind == MoveKind::reduce_scatter) {
    task.combine = combine_for(from.type.dtype, reduced == Placement::partial_max());
    if (!task.combine) return bad_input(std::string("ranks can't reduce ") + std::string(name(from.type.dtype)));
  }
  if (source.bytes().empty()) return true;
  Desk& desk = desks_[to_index(rank)];
  desk.source = source.bytes().data();
  desk.result = result.bytes().data();
  switch (move.kind) {
    case MoveKind::keep_one:
      keep_one(task, source);
      return true;
    case MoveKind::all_reduce:
      return all_reduce(task);
    case MoveKind::reduce_scatter:
      return reduce_scatter(task);
    case MoveKind::slice:
    case MoveKind::all_gather:
    case MoveKind::all_to_all:
    case MoveKind::permute:
      return fetch(task);
  }
  return internal_error("there is no such move");
}

Box Transport::source_box(const Task& task, std::int64_t rank) const {
  return box_of(task.from.layout, task.from.atoms, program_.mesh, coordinates_of(program_.mesh, rank));
}

// Puts together, or combines with what is there, what `task` needs from the buffers of the ranks `from`, each of which
// holds a box of the same tensor. Boxes are either equal, and then one is read, or disjoint.
void Transport::pull(const Task& task, const std::vector<std::int64_t>& from, bool accumulate) {
  Desk& desk = desks_[to_index(task.rank)];
  std::vector<Box> seen;
  for (const std::int64_t rank : from) {
    Box box = source_box(task, rank);
    if (std::ranges::find(seen, box) != seen.end()) continue;
    const std::byte* source = desks_[to_index(rank)].source;
    const Box part = intersect(task.target, box);
    for_each_run(box, task.target, part, [&](std::size_t there, std::size_t here, std::size_t count) {
      const std::byte* run = source + there * task.element_bytes;
      std::byte* place = desk.result + here * task.element_bytes;
      if (accumulate) {
        task.combine(place, run, count);
      } else {
        std::memcpy(place, run, count * task.element_bytes);
      }
    });
    if (rank != task.rank) desk.fetched += part.elements() * static_cast<std::int64_t>(task.element_bytes);
    seen.push_back(std::move(box));
  }
}

// `ranks` with `first` in front, if it is one of them.
static std::vector<std::int64_t> prefer(std::vector<std::int64_t> ranks, std::int64_t first) {
  const auto found = std::ranges::find(ranks, first);
  if (found != ranks.end()) std::rotate(ranks.begin(), found, found + 1);
  return ranks;
}

bool Transport::fetch(const Task& task) {
  // A rank that slices the innermost axis of an atom holds all that it needs.
  const bool meets = task.move.kind != MoveKind::slice || !task.to.layout.is_innermost(task.move.axis);
  if (!meets) {
    pull(task, {task.rank}, false);
    return true;
  }
  if (!meet(task, 0)) return false;
  pull(task, prefer(task.group, task.rank), false);
  return meet(task, 1);  // nobody drops what others still read
}

bool Transport::reduce_scatter(const Task& task) {
  if (!meet(task, 0)) return false;
  const Mesh& mesh = program_.mesh;
  const AxisSet axes = task.move.axes();
  const std::int64_t addends = mesh.along(axes).size;
  for (std::int64_t addend = 0; addend < addends; ++addend) {
    std::vector<std::int64_t> holders = task.group;
    std::erase_if(holders, [&](std::int64_t rank) { return position_of(mesh, coordinates_of(mesh, rank), axes) != addend; });
    pull(task, prefer(std::move(holders), task.rank), addend > 0);
  }
  return meet(task, 1);
}

// Each member reduces one part, in the order of the ranks, so that all end with the same bits; then it fetches the
// others' parts.
bool Transport::all_reduce(const Task& task) {
  Desk& desk = desks_[to_index(task.rank)];
  const std::size_t members = task.group.size(), size = task.element_bytes;
  const auto self = static_cast<std::size_t>(std::ranges::find(task.group, task.rank) - task.group.begin());
  const auto begin = [&](std::size_t member) { return to_index(task.target.elements()) * member / members; };
  const auto count = [&](std::size_t member) { return begin(member + 1) - begin(member); };
  if (!meet(task, 0)) return false;
  std::byte* own_part = desk.result + begin(self) * size;
  for (std::size_t i = 0; i < members; ++i) {
    const std::byte* addend = desks_[to_index(task.group[i])].source + begin(self) * size;
    if (i == 0) {
      std::memcpy(own_part, addend, count(self) * size);
    } else {
      task.combine(own_part, addend, count(self));
    }
    if (i != self) desk.fetched += static_cast<std::int64_t>(count(self) * size);
  }
  if (!meet(task, 1)) return false;
  for (std::size_t i = 0; i < members; ++i) {
    if (i == self) continue;
    const std::byte* part = desks_[to_index(task.group[i])].result + begin(i) * size;
    std::memcpy(desk.result + begin(i) * size, part, count(i) * size);
    desk.fetched += static_cast<std::int64_t>(count(i) * size);
  }
  return meet(task, 2);
}

void Transport::keep_one(const Task& task, const Tensor& source) const {
  std::byte* result = desks_[to_index(task.rank)].result;
  const std::int64_t coordinate = task.at[task.move.axis];
  const DType dtype = task.from.type.dtype;
  if (scatter_partials_ && (dtype == DType::float32 || dtype == DType::float64)) {
    const double share = share_of(*scatter_partials_, task.step, coordinate, program_.mesh.axes[task.move.axis].size);
    const auto elements = to_index(task.target.elements());
    if (dtype == DType::float32) {
      scale<float>(source.as<float>(), {reinterpret_cast<float*>(result), elements}, share);
    } else {
      scale<double>(source.as<double>(), {reinterpret_cast<double*>(result), elements}, share);
    }
  } else if (coordinate == 0) {
    std::memcpy(result, source.bytes().data(), source.bytes().size());
  }
}

}  // namespace meshwright
