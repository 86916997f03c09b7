#include "segments.h"

#include <algorithm>
#include <numeric>

namespace meshwright {

SegmentNeeds::SegmentNeeds(const Chain& chain) : triangle_(chain.stages.size()) {
  for (const ChainStage& stage : chain.stages) {
    input_.push_back(stage.input_bytes);
    gradient_.push_back(stage.input_gradient_bytes);
    saved_.push_back(stage.saved_bytes);
    forward_overhead_.push_back(stage.forward_overhead_bytes);
    backward_overhead_.push_back(stage.backward_overhead_bytes);
  }
  input_.push_back(0);
  gradient_.push_back(0);
  for (const auto* sizes : {&input_, &gradient_, &saved_, &forward_overhead_, &backward_overhead_}) {
    for (const std::int64_t bytes : *sizes) divisor_ = std::gcd(divisor_, bytes);
  }
  divisor_ = std::max<std::int64_t>(divisor_, 1);

  forwards_.resize(triangle_.size());
  for (std::size_t first = 0; first < triangle_.stages(); ++first) {
    std::int64_t most = 0;
    for (std::size_t stage = first; stage < triangle_.stages(); ++stage) {
      const std::int64_t read = stage == first ? 0 : input_[stage];  // the segment's own input is not part of its room
      most = std::max(most, read + input_[stage + 1] + forward_overhead_[stage]);
      forwards_[triangle_.at(first, stage)] = most;
    }
  }
}

std::int64_t SegmentNeeds::keep_all(std::size_t first, std::size_t last) const {
  return saved_[first] + std::max(gradient_[last + 1] + forward_overhead_[first],
                                  gradient_[first + 1] + gradient_[first] + backward_overhead_[first]);
}

LeastRoom::LeastRoom(const SegmentNeeds& needs, Slots slots)
    : needs_(needs),
      triangle_(needs.triangle()),
      slots_(slots),
      least_(triangle_.size()),
      everything_(triangle_.size()) {
  const std::size_t stages = triangle_.stages();
  for (std::size_t k = 0; k < stages; ++k) input_slots_.push_back(slots_.held(needs_.input(k)));
  // behind[last][k]: the room of k..last beside the input of k. So both rows that a segment looks at lie in memory as
  // they are read.
  std::vector<std::int64_t> behind(stages * stages);
  for (std::size_t first = stages; first-- > 0;) {
    const std::int64_t* before = &least_[triangle_.at(first, first)];
    for (std::size_t last = first; last < stages; ++last) {
      std::int64_t least = of_keeping_all(first, last);
      for (std::size_t k = first + 1; k <= last; ++k) {
        const std::int64_t parts = std::max(behind[last * stages + k], before[k - 1 - first]);
        if (parts < least) least = std::min(least, std::max(parts, of_forwards(first, k, last)));
      }
      least_[triangle_.at(first, last)] = least;
      const std::int64_t own = slots_.needed(needs_.keep_all(first, last));
      const std::int64_t saved = slots_.held(needs_.saved(first));
      everything_[triangle_.at(first, last)] =
          first == last ? own : std::max(own, saved + of_everything(first + 1, last));
      behind[last * stages + first] = input_slots_[first] + least;
    }
  }
}

std::int64_t LeastRoom::of_keeping_all(std::size_t first, std::size_t last) const {
  const std::int64_t own = slots_.needed(needs_.keep_all(first, last));
  return first == last ? own : std::max(own, slots_.held(needs_.saved(first)) + of(first + 1, last));
}

std::int64_t LeastRoom::of_checkpoint(std::size_t first, std::size_t k, std::size_t last) const {
  return std::max({input_slots_[k] + of(k, last), of(first, k - 1), of_forwards(first, k, last)});
}

std::int64_t LeastRoom::of_forwards(std::size_t first, std::size_t k, std::size_t last) const {
  return slots_.needed(needs_.gradient(last + 1) + needs_.forwards(first, k));
}

}  // namespace meshwright
