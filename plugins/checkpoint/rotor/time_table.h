// The dynamic program of MAP's Theorem 5.1 over all segments of a chain and all rooms, in slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "meshwright/checkpoint.h"
#include "segments.h"

namespace meshwright {

class TimeTable {
 public:
  // How many entries a table of so many rooms has.
  static std::size_t entries(const Triangle& triangle, std::int64_t room) {
    return triangle.size() * static_cast<std::size_t>(room + 1);
  }
  // Whether all times that the table can hold are below `kNever`.
  static bool fits(const Chain& chain);

  // Of rooms of 0 to `room` slots. `needs` must outlive the table; `fits(chain)` must hold.
  TimeTable(const Chain& chain, const SegmentNeeds& needs, Slots slots, std::int64_t room);

  static constexpr Ticks kNever = 4'000'000'000'000'000'000;  // twice that is no overflow

  [[nodiscard]] Slots slots() const { return least_.slots(); }
  // The least time in which the segment is processed; kNever if the room is too small.
  [[nodiscard]] Ticks ticks(std::size_t first, std::size_t last, std::int64_t room) const;
  // A way that takes this time: the stage that is checkpointed first, or `first` if its stage keeps all. Of several,
  // keeping all goes before checkpoints, and these in their order. The room must do.
  [[nodiscard]] std::size_t way(std::size_t first, std::size_t last, std::int64_t room) const;

 private:
  void fill_room(std::int64_t room);
  Ticks least_ticks(std::size_t first, std::size_t last, std::int64_t room);
  [[nodiscard]] Ticks ticks_keeping_all(std::size_t first, std::size_t last, std::int64_t room) const;
  [[nodiscard]] Ticks unhindered(std::size_t first, std::size_t last) const { return both_[last + 1] - both_[first]; }
  Ticks* rooms_row(std::int64_t room) { return &ticks_[static_cast<std::size_t>(room) * triangle_.size()]; }
  [[nodiscard]] const Ticks* rooms_row(std::int64_t room) const {
    return &ticks_[static_cast<std::size_t>(room) * triangle_.size()];
  }

  const SegmentNeeds& needs_;
  Triangle triangle_;
  LeastRoom least_;
  std::vector<Ticks> forwards_;  // by stage: of all forwards before it, run once
  std::vector<Ticks> both_;      // the same, with their backwards
  std::vector<std::int64_t> saved_slots_, input_slots_;
  std::unique_ptr<Ticks[]> ticks_;  // by room, then by segment
  // By segment, of the checkpoints first + 1, first + 2 ...: how many the forwards to them fit the room that is being
  // filled, and how many they would not take too long to. With more room the one ascends and the other descends.
  std::vector<std::uint32_t> fitting_, helping_;
  // Of the room that is being filled, a row for each last and for each first stage, so that the sums over all
  // checkpoints k of one segment are of two rows that lie in memory as they are read.
  std::size_t stride_;
  std::vector<Ticks> behind_;  // [last][k]: the time of k..last in what the input of k leaves, and forwards_[k]
  std::vector<Ticks> before_;  // [first][k]: the time of first..k-1
};

}  // namespace meshwright
