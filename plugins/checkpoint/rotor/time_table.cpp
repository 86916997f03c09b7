#include "time_table.h"

#include <algorithm>

namespace meshwright {

namespace {

// Nearly all of the time is spent here: for processors with wide vectors it is compiled once more. (Sanitizers' run
// times are not ready yet when the loader chooses between the versions.)
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define WIDE_VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define WIDE_VECTORS
#endif

// The least a[i] + b[i].
WIDE_VECTORS Ticks least_sum(const Ticks* __restrict a, const Ticks* __restrict b, std::size_t count) {
  Ticks least = 2 * TimeTable::kNever;
  for (std::size_t i = 0; i < count; ++i) {
    const Ticks sum = a[i] + b[i];
    least = sum < least ? sum : least;
  }
  return least;
}

}  // namespace

bool TimeTable::fits(const Chain& chain) {
  TickSum forwards = 0;
  for (const ChainStage& stage : chain.stages) forwards += forward_run_ticks(stage);
  // In a segment a forward runs at most once for each stage behind it.
  return forwards < kNever / 4 &&
         forwards * static_cast<TickSum>(chain.stages.size()) + ticks_without_recomputing(chain) < kNever;
}

TimeTable::TimeTable(const Chain& chain, const SegmentNeeds& needs, Slots slots, std::int64_t room)
    : needs_(needs),
      triangle_(needs.triangle()),
      least_(needs, slots),
      forwards_(1, 0),
      both_(1, 0),
      ticks_(std::make_unique_for_overwrite<Ticks[]>(entries(triangle_, room))),
      fitting_(triangle_.size(), 0),
      stride_(chain.stages.size() + 1),
      behind_(chain.stages.size() * stride_, kNever),
      before_(chain.stages.size() * stride_, kNever) {
  for (std::size_t stage = 0; stage < chain.stages.size(); ++stage) {
    const ChainStage& here = chain.stages[stage];
    forwards_.push_back(forwards_.back() + forward_run_ticks(here));
    both_.push_back(both_.back() + forward_run_ticks(here) + backward_run_ticks(here));
    saved_slots_.push_back(slots.held(needs.saved(stage)));
    input_slots_.push_back(slots.held(needs.input(stage)));
  }
  for (std::uint32_t first = 0; first < chain.stages.size(); ++first) {
    for (std::uint32_t last = first; last < chain.stages.size(); ++last) helping_.push_back(last - first);
  }
  for (std::int64_t at = 0; at <= room; ++at) fill_room(at);
}

Ticks TimeTable::ticks(std::size_t first, std::size_t last, std::int64_t room) const {
  return room < 0 ? kNever : rooms_row(room)[triangle_.at(first, last)];
}

void TimeTable::fill_room(std::int64_t room) {
  const std::size_t stages = triangle_.stages();
  for (std::size_t k = 1; k < stages; ++k) {
    // An input without slots leaves this same room, which is filled in below.
    if (input_slots_[k] == 0 || input_slots_[k] > room) continue;
    const Ticks* left = rooms_row(room - input_slots_[k]) + triangle_.at(k, k);
    for (std::size_t last = k; last < stages; ++last) behind_[last * stride_ + k] = left[last - k] + forwards_[k];
  }
  Ticks* row = rooms_row(room);
  for (std::size_t first = stages; first-- > 0;) {
    for (std::size_t last = first; last < stages; ++last) {
      const Ticks least = least_ticks(first, last, room);
      row[triangle_.at(first, last)] = least;
      before_[first * stride_ + last + 1] = least;
      if (input_slots_[first] == 0) behind_[last * stride_ + first] = least + forwards_[first];
    }
  }
}

// The same segment with one slot less is an upper bound, and two things follow from it: nothing is left to gain where
// no forward runs twice, and a checkpoint so far behind that the forwards to it take more than is left to gain can't
// help.
Ticks TimeTable::least_ticks(std::size_t first, std::size_t last, std::int64_t room) {
  const std::size_t segment = triangle_.at(first, last);
  if (room < least_.of(first, last)) return kNever;
  Ticks least = room == 0 ? kNever : rooms_row(room - 1)[segment];
  if (least == unhindered(first, last)) return least;
  least = std::min(least, ticks_keeping_all(first, last, room));

  const std::int64_t* needs = needs_.forwards_of(first);
  const std::int64_t bytes = room * slots().bytes() - needs_.gradient(last + 1);
  std::uint32_t& fitting = fitting_[segment];
  while (fitting < last - first && needs[fitting] <= bytes) ++fitting;
  const Ticks gain = least - unhindered(first, last) + forwards_[first];
  std::uint32_t& helping = helping_[segment];
  while (helping > 0 && forwards_[first + helping] >= gain) --helping;

  const Ticks sum = least_sum(&behind_[last * stride_ + first + 1], &before_[first * stride_ + first + 1],
                              std::min(fitting, helping));
  return std::min(least, sum - forwards_[first]);
}

Ticks TimeTable::ticks_keeping_all(std::size_t first, std::size_t last, std::int64_t room) const {
  if (room * slots().bytes() < needs_.keep_all(first, last)) return kNever;
  if (first == last) return unhindered(first, last);
  const Ticks rest = ticks(first + 1, last, room - saved_slots_[first]);
  return rest == kNever ? kNever : rest + unhindered(first, first);
}

std::size_t TimeTable::way(std::size_t first, std::size_t last, std::int64_t room) const {
  const Ticks least = ticks(first, last, room);
  if (ticks_keeping_all(first, last, room) == least) return first;
  const std::int64_t bytes = room * slots().bytes() - needs_.gradient(last + 1);
  std::size_t k = first + 1;
  const auto takes_least = [&] {
    return needs_.forwards(first, k) <= bytes &&
           forwards_[k] - forwards_[first] + ticks(k, last, room - input_slots_[k]) + ticks(first, k - 1, room) ==
               least;
  };
  while (!takes_least()) ++k;
  return k;
}

}  // namespace meshwright
