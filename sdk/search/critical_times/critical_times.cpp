#include "critical_times.h"

#include <algorithm>
#include <limits>

namespace meshwright {

namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// A term over the segments between the times at which anything begins or ends.
struct Term {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
};

class Times {
 public:
  Times(const StrategySpace& space, std::int64_t budget) : space_(space), budget_(budget) {
    for (const MemoryTerm& term : space.memory) {
      bounds_.push_back(term.begin);
      bounds_.push_back(term.end);
    }
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
    for (const MemoryTerm& term : space.memory) {
      const auto [least, most] = std::minmax_element(term.bytes.begin(), term.bytes.end());
      terms_.push_back({segment(term.begin), segment(term.end), *least, *most});
    }
    add_up();
    find_changes();
  }

  // Segments, ascending.
  std::vector<std::size_t> critical() const {
    std::vector<Kept> kept;
    Kept current;
    for (std::size_t i = 0; i < bounds_.size(); ++i) {
      for (Kept* change : {&current, kept.empty() ? &current : &kept.back()}) {
        change->ended_from = std::min(change->ended_from, first_begin_of_ended_[i]);
        change->begun_to = std::max(change->begun_to, last_end_of_begun_[i]);
      }
      if (most_[i] <= budget_) continue;
      bool is_covered = false;
      while (!kept.empty()) {
        const Kept& before = kept.back();
        const bool covers = before.begun_to <= i && least_[i] <= least_[before.segment];
        const bool is_within = before.ended_from > before.segment && least_[before.segment] <= least_[i];
        if (covers) is_covered = true;
        if (covers || !is_within) break;
        const Kept gone = before;
        kept.pop_back();
        if (kept.empty()) break;
        kept.back().ended_from = std::min(kept.back().ended_from, gone.ended_from);
        kept.back().begun_to = std::max(kept.back().begun_to, gone.begun_to);
      }
      if (!is_covered) kept.push_back({i, kNone, 0});
    }
    std::vector<std::size_t> result;
    for (const Kept& one : kept) result.push_back(one.segment);
    return result;
  }

  [[nodiscard]] const std::vector<Term>& terms() const { return terms_; }
  [[nodiscard]] std::int32_t begin_of(std::size_t segment) const { return bounds_[segment]; }
  [[nodiscard]] std::int64_t least_at(std::size_t segment) const { return least_[segment]; }

 private:
  // A segment, and what changed since: the first begin of terms that ended, the last end of terms that began.
  struct Kept {
    std::size_t segment = 0;
    std::size_t ended_from = kNone;
    std::size_t begun_to = 0;
  };

  [[nodiscard]] std::size_t segment(std::int32_t time) const {
    return static_cast<std::size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), time) - bounds_.begin());
  }

  void add_up() {
    least_.assign(bounds_.size() + 1, 0);
    most_.assign(bounds_.size() + 1, 0);
    for (const Term& term : terms_) {
      least_[term.begin] += term.least;
      least_[term.end] -= term.least;
      most_[term.begin] += term.most;
      most_[term.end] -= term.most;
    }
    std::int64_t least = space_.fixed_bytes;
    std::int64_t most = space_.fixed_bytes;
    for (std::size_t i = 0; i < least_.size(); ++i) {
      least_[i] = least += least_[i];
      most_[i] = most += most_[i];
    }
  }

  void find_changes() {
    first_begin_of_ended_.assign(least_.size(), kNone);
    last_end_of_begun_.assign(least_.size(), 0);
    for (const Term& term : terms_) {
      if (term.least == term.most) continue;
      first_begin_of_ended_[term.end] = std::min(first_begin_of_ended_[term.end], term.begin);
      last_end_of_begun_[term.begin] = std::max(last_end_of_begun_[term.begin], term.end);
    }
  }

  const StrategySpace& space_;
  const std::int64_t budget_;
  std::vector<std::int32_t> bounds_;
  std::vector<Term> terms_;  // as the space's
  std::vector<std::int64_t> least_, most_;  // by segment
  std::vector<std::size_t> first_begin_of_ended_, last_end_of_begun_;
};

}  // namespace

CriticalSpace keep_critical_times(const StrategySpace& space, std::int64_t budget) {
  const Times times(space, budget);
  const std::vector<std::size_t> critical = times.critical();
  CriticalSpace critical_space;
  StrategySpace& result = critical_space.space;
  result.nodes = space.nodes;
  result.tables = space.tables;
  result.edges = space.edges;
  const auto last = static_cast<std::uint32_t>(result.nodes.size());
  result.nodes.push_back({"whatever is chosen", {0}});
  for (std::size_t t = 0; t < critical.size(); ++t) {
    critical_space.times.push_back(times.begin_of(critical[t]));
    const auto time = static_cast<std::int32_t>(t);
    result.memory.push_back({last, time, time + 1, {times.least_at(critical[t])}});
  }
  if (critical.empty() && space.fixed_bytes > budget) {  // then nothing fits, though nothing may ever be live
    critical_space.times.push_back(0);
    result.memory.push_back({last, 0, 1, {space.fixed_bytes}});
  }
  for (std::size_t i = 0; i < space.memory.size(); ++i) {
    const Term& term = times.terms()[i];
    if (term.least == term.most) continue;
    const auto at = [&critical](std::size_t segment) {
      return static_cast<std::int32_t>(std::lower_bound(critical.begin(), critical.end(), segment) - critical.begin());
    };
    MemoryTerm kept{space.memory[i].node, at(term.begin), at(term.end), space.memory[i].bytes};
    if (kept.begin == kept.end) continue;
    for (std::int64_t& bytes : kept.bytes) bytes -= term.least;
    result.memory.push_back(std::move(kept));
  }
  return critical_space;
}

}  // namespace meshwright
