#include "order.h"

#include <algorithm>
#include <set>

namespace meshwright::elimination {

namespace {

enum class Criterion { fill, weight };

// Counting the missing pairs of a hub is dear and pointless: it is never the next to go.
constexpr std::size_t kMostCounted = 48;

class Greedy {
 public:
  Greedy(const Problem& problem, Criterion criterion)
      : problem_(problem), criterion_(criterion), neighbours_(problem.size()), scores_(problem.size()) {
    for (const Pair& pair : problem.pairs) {
      insert(pair.first, pair.second);
      insert(pair.second, pair.first);
    }
  }

  Order run() {
    for (std::uint32_t v = 0; v < problem_.size(); ++v) {
      scores_[v] = score(v);
      queue_.insert({scores_[v], v});
    }
    Order order;
    while (!queue_.empty()) {
      const std::uint32_t v = queue_.begin()->second;
      queue_.erase(queue_.begin());
      const double entries = table_entries(v);
      order.variables.push_back(v);
      order.largest_table = std::max(order.largest_table, entries);
      order.work += entries;
      order.width = std::max(order.width, neighbours_[v].size());
      eliminate(v);
    }
    return order;
  }

 private:
  void insert(std::uint32_t v, std::uint32_t other) {
    auto& list = neighbours_[v];
    const auto place = std::lower_bound(list.begin(), list.end(), other);
    if (place == list.end() || *place != other) list.insert(place, other);
  }

  [[nodiscard]] double table_entries(std::uint32_t v) const {
    double entries = problem_.domains[v];
    for (const std::uint32_t other : neighbours_[v]) entries *= problem_.domains[other];
    return entries;
  }

  [[nodiscard]] double missing_pairs(std::uint32_t v) const {
    const auto& list = neighbours_[v];
    if (list.size() > kMostCounted) return static_cast<double>(list.size() * list.size());
    double missing = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto& others = neighbours_[list[i]];
      for (std::size_t j = i + 1; j < list.size(); ++j) {
        missing += std::binary_search(others.begin(), others.end(), list[j]) ? 0 : 1;
      }
    }
    return missing;
  }

  // The second number breaks ties, the variable's own number after it.
  [[nodiscard]] std::pair<double, double> score(std::uint32_t v) const {
    if (criterion_ == Criterion::fill) return {missing_pairs(v), table_entries(v)};
    return {table_entries(v), 0};
  }

  void eliminate(std::uint32_t v) {
    const std::vector<std::uint32_t> list = std::move(neighbours_[v]);
    neighbours_[v].clear();
    for (const std::uint32_t a : list) {
      auto& of_a = neighbours_[a];
      of_a.erase(std::lower_bound(of_a.begin(), of_a.end(), v));
      for (const std::uint32_t b : list) {
        if (a != b) insert(a, b);
      }
    }
    std::set<std::uint32_t> touched(list.begin(), list.end());
    // New pairs among them change what their common neighbours miss.
    if (criterion_ == Criterion::fill && list.size() > 1) {
      for (const std::uint32_t a : list) {
        if (neighbours_[a].size() <= kMostCounted) touched.insert(neighbours_[a].begin(), neighbours_[a].end());
      }
    }
    for (const std::uint32_t a : touched) {
      const auto updated = score(a);
      if (updated == scores_[a]) continue;
      queue_.erase({scores_[a], a});
      scores_[a] = updated;
      queue_.insert({updated, a});
    }
  }

  const Problem& problem_;
  const Criterion criterion_;
  std::vector<std::vector<std::uint32_t>> neighbours_;  // sorted
  std::vector<std::pair<double, double>> scores_;
  std::set<std::pair<std::pair<double, double>, std::uint32_t>> queue_;
};

}  // namespace

Order find_order(const Problem& problem) {
  Order fill = Greedy(problem, Criterion::fill).run();
  Order weight = Greedy(problem, Criterion::weight).run();
  const bool better = std::pair(weight.largest_table, weight.work) < std::pair(fill.largest_table, fill.work);
  return better ? weight : fill;
}

}  // namespace meshwright::elimination
