#include "every_schedule.h"

#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

namespace meshwright {

namespace {

// What memory holds, in bits by stage.
struct Held {
  std::uint32_t inputs = 0;     // inputs that are held by themselves
  std::uint32_t kept = 0;       // those of them that have been kept
  std::uint32_t saved = 0;      // stages that have saved all
  std::uint32_t backwards = 0;  // how many are still to run

  [[nodiscard]] std::uint64_t key() const {
    return std::uint64_t{inputs} | std::uint64_t{kept} << 16 | std::uint64_t{saved} << 32 |
           std::uint64_t{backwards} << 48;
  }
  static Held of(std::uint64_t key) {
    const auto bits = [&](unsigned at) { return static_cast<std::uint32_t>(key >> at & 0xffffU); };
    return {bits(0), bits(16), bits(32), bits(48)};
  }
};

constexpr std::uint32_t bit(std::size_t stage) { return std::uint32_t{1} << stage; }

class Dijkstra {
 public:
  Dijkstra(const Chain& chain, std::int64_t budget, ScheduleFamily family)
      : stages_(chain.stages), budget_(budget), family_(family) {}

  std::optional<std::int64_t> run() {
    reach({1, 1, 0, static_cast<std::uint32_t>(stages_.size())}, 0);
    while (!open_.empty()) {
      const auto [ticks, key] = open_.top();
      open_.pop();
      if (best_[key] < ticks) continue;
      const Held held = Held::of(key);
      if (held.backwards == 0) return ticks;
      for (std::size_t stage = 0; stage < held.backwards; ++stage) try_forwards(held, stage, ticks);
      try_backward(held, ticks);
      try_drops(held, ticks);
    }
    return std::nullopt;
  }

 private:
  void reach(const Held& held, std::int64_t ticks) {
    const auto [found, is_new] = best_.try_emplace(held.key(), ticks);
    if (!is_new && found->second <= ticks) return;
    found->second = ticks;
    open_.emplace(ticks, held.key());
  }

  [[nodiscard]] std::int64_t input_bytes(std::size_t stage) const {
    return stage < stages_.size() ? stages_[stage].input_bytes : 0;
  }

  [[nodiscard]] std::int64_t bytes(const Held& held) const {
    std::int64_t sum = held.backwards < stages_.size() ? stages_[held.backwards].input_gradient_bytes : 0;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (held.inputs & bit(stage)) sum += stages_[stage].input_bytes;
      if (held.saved & bit(stage)) sum += stages_[stage].saved_bytes;
    }
    return sum;
  }

  [[nodiscard]] static bool has_input(const Held& held, std::size_t stage) {
    return (held.inputs & bit(stage)) != 0 || (stage > 0 && (held.saved & bit(stage - 1)) != 0);
  }

  void try_forwards(const Held& held, std::size_t stage, std::int64_t ticks) {
    if (!has_input(held, stage) || (held.saved & bit(stage))) return;
    if (family_ == ScheduleFamily::nested && ((held.inputs | held.saved << 1) >> (stage + 1)) != 0) return;
    const ChainStage& here = stages_[stage];
    const std::int64_t before = bytes(held) + here.forward_overhead_bytes;
    const std::int64_t later = ticks + here.forward_ticks + here.forward_communication_ticks;
    Held next = held;
    next.kept |= held.inputs & bit(stage);
    if (before + here.saved_bytes <= budget_) {
      Held all = next;
      all.saved |= bit(stage);
      all.inputs &= ~bit(stage + 1);
      all.kept &= ~bit(stage + 1);
      reach(all, later);
    }
    if (stage + 1 == stages_.size() || (held.inputs & bit(stage + 1)) || before + input_bytes(stage + 1) > budget_) {
      return;
    }
    next.inputs |= bit(stage + 1);
    reach(next, later);
    if (!(held.inputs & bit(stage))) return;
    if (family_ != ScheduleFamily::any && (held.kept & bit(stage))) return;
    next.inputs &= ~bit(stage);
    next.kept &= ~bit(stage);
    reach(next, later);
  }

  void try_backward(const Held& held, std::int64_t ticks) {
    const std::size_t stage = held.backwards - 1;
    const ChainStage& here = stages_[stage];
    if (!(held.saved & bit(stage)) || !has_input(held, stage)) return;
    if (bytes(held) + here.input_gradient_bytes + here.backward_overhead_bytes > budget_) return;
    Held next = held;
    next.saved &= ~bit(stage);
    next.inputs &= ~bit(stage);
    next.kept &= ~bit(stage);
    next.backwards = static_cast<std::uint32_t>(stage);
    reach(next, ticks + here.backward_ticks + here.backward_communication_ticks);
  }

  void try_drops(const Held& held, std::int64_t ticks) {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if ((held.inputs & bit(stage)) && (family_ == ScheduleFamily::any || !(held.kept & bit(stage)))) {
        Held next = held;
        next.inputs &= ~bit(stage);
        next.kept &= ~bit(stage);
        reach(next, ticks);
      }
      if (family_ == ScheduleFamily::any && (held.saved & bit(stage))) {
        Held next = held;
        next.saved &= ~bit(stage);
        if (stage + 1 < stages_.size()) next.inputs |= bit(stage + 1);
        reach(next, ticks);
      }
    }
  }

  using Entry = std::pair<std::int64_t, std::uint64_t>;
  const std::vector<ChainStage>& stages_;
  const std::int64_t budget_;
  const ScheduleFamily family_;
  std::unordered_map<std::uint64_t, std::int64_t> best_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
};

}  // namespace

std::optional<std::int64_t> least_ticks_of_every_schedule(const Chain& chain, std::int64_t budget_bytes,
                                                          ScheduleFamily family) {
  if (budget_bytes < chain.stages.front().input_bytes) return std::nullopt;
  return Dijkstra(chain, budget_bytes, family).run();
}

}  // namespace meshwright
