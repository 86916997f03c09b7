// Moves as collectives of NCCL, or as sends and receives where no collective does the same; with copies before and
// behind where parts do not lie one after the other.
#include <algorithm>
#include <numeric>
#include <utility>

#include "box_runs.h"
#include "kernels/pointwise.h"
#include "step_builder.h"

namespace meshwright::cuda {

namespace {

std::vector<std::int64_t> strides_in(const Box& box) { return strides_of(box.extent); }

// The first element of `part` in a buffer that holds a box.
std::int64_t first_of(const Box& part, const Box& held) {
  const std::vector<std::int64_t> strides = strides_in(held);
  std::int64_t at = 0;
  for (std::size_t d = 0; d < strides.size(); ++d) at += (part.start[d] - held.start[d]) * strides[d];
  return at;
}

bool maximum_of(const MovePart& part) { return part.from.layout[part.move.axis] == Placement::partial_max(); }

// Whether a buffer that holds `whole` holds these boxes of `count` elements one after the other.
bool follow_each_other(const std::vector<Box>& boxes, const Box& whole, std::int64_t count) {
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].elements() != count || first_of(boxes[i], whole) != static_cast<std::int64_t>(i) * count) return false;
    const Seen seen{{DType::float32, boxes[i].extent}, nullptr, strides_in(whole)};
    if (!seen.is_contiguous()) return false;
  }
  return true;
}

}  // namespace

Status StepBuilder::move(const Instruction& instruction) {
  const Result<MovePart> made = move_part(program_, instruction, rank_);
  if (!made) return made.error();
  const MovePart& part = *made;
  const Result<Seen> source = read_in_rows(instruction.operands[0].value, microbatch_);
  if (!source) return source.error();
  const Seen result = placed(instruction.results[0]);
  keep(instruction.results[0]);
  if (result.type.elements() == 0) return Done{};
  const auto bytes = static_cast<std::size_t>(result.type.bytes());
  if (part.move.kind == MoveKind::all_reduce) return all_reduce(part, *source, result);
  if (part.move.kind == MoveKind::keep_one) {
    if (part.at[part.move.axis] != 0) {
      add(Fill{result.data, bytes});
      return Done{};
    }
    const Node none;
    return with_writer({none, {}, {}}, {*source}, {result},
                       [&](OpWriter& writer) { return writer.copy(*source, result); });
  }
  const std::vector<Piece> pieces = pieces_of(part);
  const bool one_each = pieces.size() == part.group.size();
  if (part.move.kind == MoveKind::all_gather && one_each) return gather(part, pieces, *source, result);
  if (part.move.kind == MoveKind::reduce_scatter && one_each) return reduce_scatter(part, *source, result);
  return exchange(part, pieces, *source, result);
}

GroupKey StepBuilder::group_of(const MovePart& part) const {
  GroupKey group{stream_, {}};
  for (const std::int64_t rank : part.group) group.seats.push_back(stage_.links.seat(stage_.stage, rank));
  return group;
}

Status StepBuilder::copy_box(const MovePart& part, const Box& box, const Box& held, std::byte* from, const Box& target,
                             std::byte* to, bool adds) {
  std::optional<Function> function;
  if (adds) function = maximum_of(part) ? Function::maximum : Function::add;
  return copy_box(part.from.type.dtype, box, held, from, target, to, function);
}

Status StepBuilder::copy_box(DType dtype, const Box& box, const Box& held, std::byte* from, const Box& target,
                             std::byte* to, std::optional<Function> function) {
  if (box.elements() == 0) return Done{};
  const auto size = static_cast<std::size_t>(size_bytes(dtype));
  const TensorType type{dtype, box.extent};
  const Seen source{type, from + static_cast<std::size_t>(first_of(box, held)) * size, strides_in(held)};
  const Seen place{type, to + static_cast<std::size_t>(first_of(box, target)) * size, strides_in(target)};
  const Node none;
  return with_writer({none, {}, {}}, {source}, {place}, [&](OpWriter& writer) {
    return function ? combine_into(writer, *function, source, place) : writer.copy(source, place);
  });
}

void StepBuilder::fill_unless_covered(const MovePart& part, const std::vector<Piece>& pieces, const Seen& result) {
  std::int64_t covered = 0;
  for (const Piece& piece : pieces) covered += piece.adds ? 0 : piece.part.elements();
  if (covered < part.target.elements()) add(Fill{result.data, static_cast<std::size_t>(result.type.bytes())});
}

Status StepBuilder::all_reduce(const MovePart& part, const Seen& source, const Seen& result) {
  add(Collective{CollectiveKind::all_reduce, group_of(part), source.data, result.data,
                 static_cast<std::size_t>(result.type.elements()), result.type.dtype, maximum_of(part)});
  // As a reduce-scatter of segments and an all-gather of them.
  const auto self = static_cast<std::size_t>(std::ranges::find(part.group, rank_) - part.group.begin());
  const std::size_t own = segment_of(part, self).count, others = part.group.size() - 1;
  made_.received_bytes += static_cast<std::int64_t>(
      (own * others + static_cast<std::size_t>(result.type.elements()) - own) * part.element_bytes);
  return Done{};
}

Status StepBuilder::gather(const MovePart& part, const std::vector<Piece>& pieces, const Seen& source,
                           const Seen& result) {
  const std::int64_t count = source.type.elements();
  std::vector<Piece> in_order = pieces;
  std::ranges::sort(in_order, {}, &Piece::from);
  std::vector<Box> boxes;
  for (const Piece& piece : in_order) boxes.push_back(piece.held);
  const bool direct = count * static_cast<std::int64_t>(boxes.size()) == part.target.elements() &&
                      follow_each_other(boxes, part.target, count);
  const std::size_t bytes = static_cast<std::size_t>(count) * part.element_bytes;
  std::byte* staging = direct ? result.data : scratch(bytes * boxes.size());
  add(Collective{CollectiveKind::all_gather, group_of(part), source.data, staging, static_cast<std::size_t>(count),
                 source.type.dtype, false});
  for (const Piece& piece : in_order)
    made_.received_bytes +=
        piece.from == rank_ ? 0 : piece.part.elements() * static_cast<std::int64_t>(part.element_bytes);
  if (direct) return Done{};
  fill_unless_covered(part, pieces, result);
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    if (Status status =
            copy_box(part, in_order[i].part, in_order[i].held, staging + bytes * i, part.target, result.data);
        !status)
      return status;
  }
  return Done{};
}

Status StepBuilder::reduce_scatter(const MovePart& part, const Seen& source, const Seen& result) {
  const Box held = box_of(part.from.layout, part.from.atoms, program_.mesh, part.at);
  const std::int64_t count = result.type.elements();
  std::vector<Box> targets;
  for (const std::int64_t member : part.group) targets.push_back(part_of(part, member).target);
  const bool direct = count * static_cast<std::int64_t>(targets.size()) == source.type.elements() &&
                      follow_each_other(targets, held, count);
  const std::size_t bytes = static_cast<std::size_t>(count) * part.element_bytes;
  std::byte* staging = direct ? source.data : scratch(bytes * targets.size());
  for (std::size_t i = 0; !direct && i < targets.size(); ++i) {
    const Box shared = intersect(targets[i], held);
    if (shared.elements() < count) add(Fill{staging + bytes * i, bytes});
    if (Status status = copy_box(part, shared, held, source.data, targets[i], staging + bytes * i); !status)
      return status;
  }
  add(Collective{CollectiveKind::reduce_scatter, group_of(part), staging, result.data, static_cast<std::size_t>(count),
                 result.type.dtype, maximum_of(part)});
  made_.received_bytes +=
      intersect(part.target, held).elements() * static_cast<std::int64_t>(part.element_bytes * (part.group.size() - 1));
  return Done{};
}

// What each needs of each other one travels in one message.
Status StepBuilder::exchange(const MovePart& part, const std::vector<Piece>& pieces, const Seen& source,
                             const Seen& result) {
  const Box held = box_of(part.from.layout, part.from.atoms, program_.mesh, part.at);
  Exchange made{group_of(part), {}, {}};
  for (std::size_t i = 0; needs_others(part) && i < part.group.size(); ++i) {
    if (part.group[i] == rank_) continue;
    const MovePart other = part_of(part, part.group[i]);
    for (const Piece& piece : pieces_of(other)) {
      if (piece.from != rank_ || piece.part.elements() == 0) continue;
      const std::size_t bytes = static_cast<std::size_t>(piece.part.elements()) * part.element_bytes;
      std::byte* staging = scratch(bytes);
      if (Status status = copy_box(part, piece.part, held, source.data, piece.part, staging); !status) return status;
      made.sends.push_back({static_cast<int>(i), staging, bytes});
    }
  }
  std::vector<std::byte*> arrived(pieces.size(), nullptr);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::size_t bytes = static_cast<std::size_t>(pieces[i].part.elements()) * part.element_bytes;
    if (pieces[i].from == rank_ || bytes == 0) continue;
    arrived[i] = scratch(bytes);
    const auto peer = std::ranges::find(part.group, pieces[i].from) - part.group.begin();
    made.receives.push_back({static_cast<int>(peer), arrived[i], bytes});
    made_.received_bytes += static_cast<std::int64_t>(bytes);
  }
  if (!made.sends.empty() || !made.receives.empty()) add(std::move(made));
  fill_unless_covered(part, pieces, result);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const bool is_here = arrived[i] == nullptr;
    if (Status status = copy_box(part, piece.part, is_here ? piece.held : piece.part,
                                 is_here ? source.data : arrived[i], part.target, result.data, piece.adds);
        !status)
      return status;
  }
  return Done{};
}

}  // namespace meshwright::cuda
