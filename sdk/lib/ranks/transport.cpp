#include "transport.h"

#include <algorithm>
#include <cstring>

#include "move_part.h"

namespace meshwright {

Transport::Transport(const Program& program, Meeting& meeting, std::optional<std::uint64_t> scatter_partials, AmongRanks among)
    : program_(program),
      meeting_(meeting),
      scatter_partials_(scatter_partials),
      desks_(to_index(program.mesh.devices())),
      among_(std::move(among)) {}

bool Transport::meet(const MovePart& part, std::size_t at, int step) {
  Meeting::Place place{among_.steps.empty() ? at : among_.steps[at], step, part.group};
  for (std::int64_t& rank : place.ranks) rank += among_.first;
  return meeting_.wait(among_.first + part.rank, place);
}

Result<bool> Transport::move(std::int64_t rank, std::size_t step, const Instruction& instruction, const Tensor& source, Tensor& result) {
  const Result<MovePart> part = move_part(program_, instruction, rank);
  if (!part) return part.error();
  if (source.bytes().empty()) return true;
  if (part->move.kind == MoveKind::keep_one) {
    keep_one(*part, scatter_partials_ ? std::optional(Scatter{*scatter_partials_, step}) : std::nullopt, source, result);
    return true;
  }
  Desk& desk = desks_[to_index(rank)];
  desk.source = source.bytes().data();
  desk.result = result.bytes().data();
  return part->move.kind == MoveKind::all_reduce ? all_reduce(*part, step) : fetch(*part, step);
}

bool Transport::fetch(const MovePart& part, std::size_t step) {
  const bool meets = needs_others(part);
  if (meets && !meet(part, step, 0)) return false;
  Desk& desk = desks_[to_index(part.rank)];
  for (const Piece& piece : pieces_of(part)) {
    take(part, piece, desks_[to_index(piece.from)].source, desk.result);
    if (piece.from != part.rank) desk.fetched += piece.part.elements() * static_cast<std::int64_t>(part.element_bytes);
  }
  return !meets || meet(part, step, 1);  // nobody drops what others still read
}

// Each member reduces one part, in the order of the ranks, so that all end with the same bits; then it fetches the
// others' parts.
bool Transport::all_reduce(const MovePart& part, std::size_t step) {
  Desk& desk = desks_[to_index(part.rank)];
  const std::size_t members = part.group.size(), size = part.element_bytes;
  const auto self = static_cast<std::size_t>(std::ranges::find(part.group, part.rank) - part.group.begin());
  if (!meet(part, step, 0)) return false;
  const Segment own = segment_of(part, self);
  std::byte* own_part = desk.result + own.begin * size;
  for (std::size_t i = 0; i < members; ++i) {
    const std::byte* addend = desks_[to_index(part.group[i])].source + own.begin * size;
    if (i == 0) {
      std::memcpy(own_part, addend, own.count * size);
    } else {
      part.combine(own_part, addend, own.count);
    }
    if (i != self) desk.fetched += static_cast<std::int64_t>(own.count * size);
  }
  if (!meet(part, step, 1)) return false;
  for (std::size_t i = 0; i < members; ++i) {
    if (i == self) continue;
    const Segment other = segment_of(part, i);
    std::memcpy(desk.result + other.begin * size, desks_[to_index(part.group[i])].result + other.begin * size, other.count * size);
    desk.fetched += static_cast<std::int64_t>(other.count * size);
  }
  return meet(part, step, 2);
}

}  // namespace meshwright
