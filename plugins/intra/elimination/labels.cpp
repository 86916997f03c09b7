#include "labels.h"

#include <algorithm>
#include <array>

namespace meshwright::elimination {

namespace {

constexpr std::uint32_t kNoTrace = 0xffffffffU;

struct Label {
  Ticks cost = 0;
  std::array<std::int64_t, kMostPoints> bytes{};
  std::uint32_t trace = kNoTrace;
};

// How a label came about: one choice, or two labels put together.
struct Trace {
  std::uint32_t left;   // the variable, where there is no right
  std::uint32_t right;  // the strategy | kChoice
};
constexpr std::uint32_t kChoice = 0x80000000U;

using Labels = std::vector<Label>;
using Table = std::vector<Labels>;  // by setting of a separator

class Search {
 public:
  Search(Passes& passes, const Forward& forward, const Backward& backward, std::span<const MemoryPoint> points,
         std::span<const std::int64_t> room, const Multipliers& multipliers, TickSum most_cost)
      : passes_(passes),
        forward_(forward),
        backward_(backward),
        points_(points),
        room_(room),
        multipliers_(multipliers),
        most_cost_(most_cost),
        labels_(passes.plan().buckets.size()) {}

  LabelSearch run() {
    const JoinPlan& plan = passes_.plan();
    std::vector<std::uint32_t> roots;
    for (std::uint32_t id = 0; id < plan.buckets.size(); ++id) {
      if (!fill(id)) return {};
      if (plan.buckets[id].scope.size() == 1) roots.push_back(id);
    }
    Labels all = {Label{}};
    TickSum rest = 0;
    for (const std::uint32_t root : roots) rest += forward_.offsets[root];
    for (const std::uint32_t root : roots) {
      rest -= forward_.offsets[root];
      if (!combine(all, labels_[root][0], rest)) return {};
      if (!keep_best(all)) return {};
    }
    LabelSearch result;
    result.complete = true;
    if (!all.empty()) result.choice = choice_of(all.front());
    return result;
  }

 private:
  // What completes a label at least: `rest` is the priced cost of all that it does not hold.
  [[nodiscard]] bool hopeless(const Label& label, TickSum rest) const {
    if (label.cost > most_cost_) return true;  // the priced bound below says less where room is left over
    std::array<std::int64_t, kMostPoints> left{};
    for (std::size_t k = 0; k < points_.size(); ++k) {
      left[k] = room_[k] - label.bytes[k];
      if (left[k] < 0) return true;
    }
    return label.cost + rest - priced(multipliers_, left) > most_cost_;
  }

  // All pairs of a label of `labels` and one of `others`.
  bool combine(Labels& labels, const Labels& others, TickSum rest) {
    Labels result;
    if (!passes_.meter().spend(static_cast<std::int64_t>(labels.size() * others.size()))) return false;
    for (const Label& a : labels) {
      for (const Label& b : others) {
        Label sum = a;
        sum.cost += b.cost;
        for (std::size_t k = 0; k < points_.size(); ++k) sum.bytes[k] += b.bytes[k];
        if (hopeless(sum, rest)) continue;
        sum.trace = a.trace == kNoTrace ? b.trace : b.trace == kNoTrace ? a.trace : add_trace({a.trace, b.trace});
        result.push_back(sum);
      }
    }
    labels = std::move(result);
    return true;
  }

  std::uint32_t add_trace(Trace trace) {
    traces_.push_back(trace);
    return static_cast<std::uint32_t>(traces_.size() - 1);
  }

  // Drops what another label beats or equals, and sorts by cost. False if the meter is exhausted.
  bool keep_best(Labels& labels) {
    std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) {
      return a.cost != b.cost ? a.cost < b.cost : a.bytes < b.bytes;
    });
    const auto holds_no_more = [this](const Label& one, const Label& other) {
      for (std::size_t k = 0; k < points_.size(); ++k) {
        if (one.bytes[k] > other.bytes[k]) return false;
      }
      return true;
    };
    Labels kept;
    std::vector<const Label*> front;  // of what is kept, those that no later one holds no more than: a later one is beaten by these alone
    for (const Label& label : labels) {
      std::int64_t compared = 0;
      const bool beaten = std::any_of(front.rbegin(), front.rend(), [&](const Label* other) { return ++compared, holds_no_more(*other, label); });
      if (!beaten) {
        compared += std::ssize(front);
        std::erase_if(front, [&](const Label* other) { return holds_no_more(label, *other); });
        front.push_back(&label);
        kept.push_back(label);
      }
      if (!passes_.meter().spend(compared)) return false;
    }
    labels = std::move(kept);
    return true;
  }

  bool fill(std::uint32_t id) {
    const Bucket& bucket = passes_.plan().buckets[id];
    const auto& domains = passes_.problem().domains;
    std::size_t entries = 1;
    for (std::size_t d = 1; d < bucket.scope.size(); ++d) entries *= domains[bucket.scope[d]];
    labels_[id].resize(entries);
    const std::vector<Ticks>& message = passes_.table(forward_.messages[id]);
    const std::vector<Ticks>& outside = passes_.table(backward_.outside[id]);
    // The outside is known up to a constant; the least of inside and outside together is the value of the pass.
    Ticks least = kForbidden;
    for (std::size_t i = 0; i < entries; ++i) least = std::min(least, message[i] + outside[i]);
    const TickSum constant = forward_.value - forward_.offsets[id] - least;

    std::vector<std::uint32_t> digits(bucket.scope.size(), 0);
    for (std::size_t i = 0; i < entries; ++i) {
      std::size_t rest = i;
      for (std::size_t d = bucket.scope.size(); d-- > 1;) {
        digits[d] = static_cast<std::uint32_t>(rest % domains[bucket.scope[d]]);
        rest /= domains[bucket.scope[d]];
      }
      if (outside[i] >= kForbidden || message[i] >= kForbidden) continue;
      if (!fill_entry(id, digits, constant + outside[i], labels_[id][i])) return false;
    }
    for (const std::uint32_t child : bucket.children) Table().swap(labels_[child]);
    return true;
  }

  // One setting of the separator: all strategies of the variable, with all labels of the children.
  bool fill_entry(std::uint32_t id, std::vector<std::uint32_t>& digits, TickSum outside, Labels& result) {
    const Bucket& bucket = passes_.plan().buckets[id];
    const auto& domains = passes_.problem().domains;
    for (std::uint32_t strategy = 0; strategy < domains[bucket.variable]; ++strategy) {
      digits[0] = strategy;
      Label start;
      start.cost = bucket.has_unary ? passes_.problem().unary[bucket.variable][strategy] : 0;
      TickSum rest = outside;
      std::vector<const Labels*> lists;
      std::vector<TickSum> values;
      bool allowed = start.cost < kForbidden;
      for (const Component& component : bucket.components) {
        std::size_t index = 0;
        for (const std::uint32_t position : component.positions) {
          index = index * domains[bucket.scope[position]] + digits[position];
        }
        const Ticks value = passes_.table(passes_.table_of(component, forward_))[index];
        allowed = allowed && value < kForbidden;
        if (!allowed) break;
        if (component.is_message) {
          lists.push_back(&labels_[component.index][index]);
          values.push_back(value + forward_.offsets[component.index]);
          rest += values.back();
        } else {
          start.cost += value;
        }
      }
      if (!allowed || !passes_.meter().spend(1)) {
        if (allowed) return false;
        continue;
      }
      for (std::size_t k = 0; k < points_.size(); ++k) {
        const auto& bytes = points_[k].bytes[bucket.variable];
        start.bytes[k] = bytes.empty() ? 0 : bytes[strategy];
      }
      if (hopeless(start, rest)) continue;
      start.trace = add_trace({bucket.variable, strategy | kChoice});
      Labels labels = {start};
      for (std::size_t c = 0; c < lists.size(); ++c) {
        rest -= values[c];
        if (!combine(labels, *lists[c], rest)) return false;
        if (!keep_best(labels)) return false;
      }
      result.insert(result.end(), labels.begin(), labels.end());
    }
    return keep_best(result);
  }

  [[nodiscard]] std::vector<std::uint32_t> choice_of(const Label& label) const {
    std::vector<std::uint32_t> choice(passes_.problem().size(), 0);
    std::vector<std::uint32_t> open = {label.trace};
    while (!open.empty()) {
      const std::uint32_t id = open.back();
      open.pop_back();
      if (id == kNoTrace) continue;
      const Trace trace = traces_[id];
      if ((trace.right & kChoice) != 0) {
        choice[trace.left] = trace.right & ~kChoice;
      } else {
        open.push_back(trace.left);
        open.push_back(trace.right);
      }
    }
    return choice;
  }

  Passes& passes_;
  const Forward& forward_;
  const Backward& backward_;
  const std::span<const MemoryPoint> points_;
  const std::span<const std::int64_t> room_;
  const Multipliers& multipliers_;
  const TickSum most_cost_;
  std::vector<Table> labels_;  // by bucket and entry of its separator
  std::vector<Trace> traces_;
};

}  // namespace

LabelSearch search_labels(Passes& passes, const Forward& forward, const Backward& backward,
                          std::span<const MemoryPoint> points, std::span<const std::int64_t> room,
                          const Multipliers& multipliers, TickSum most_cost) {
  return Search(passes, forward, backward, points, room, multipliers, most_cost).run();
}

}  // namespace meshwright::elimination
