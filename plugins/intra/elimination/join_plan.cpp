#include "join_plan.h"

#include <algorithm>

namespace meshwright::elimination {

namespace {

// A table that waits to be joined.
struct Input {
  bool is_message;
  std::uint32_t index;
  std::vector<std::uint32_t> variables;  // by dimension
};

class Planner {
 public:
  Planner(const Problem& problem, const Order& order, double max_table_entries)
      : problem_(problem), limit_(max_table_entries), position_(problem.size()), waiting_(problem.size()) {
    for (std::uint32_t i = 0; i < order.variables.size(); ++i) position_[order.variables[i]] = i;
    plan_.order = order.variables;
    plan_.of_variable.resize(problem.size());
    for (std::uint32_t i = 0; i < problem.pairs.size(); ++i) {
      wait({false, i, {problem.pairs[i].first, problem.pairs[i].second}});
    }
  }

  JoinPlan run() {
    for (const std::uint32_t v : plan_.order) eliminate(v);
    return std::move(plan_);
  }

 private:
  void wait(Input input) {
    const auto first = std::min_element(input.variables.begin(), input.variables.end(),
                                        [this](auto a, auto b) { return position_[a] < position_[b]; });
    waiting_[*first].push_back(std::move(input));
  }

  void eliminate(std::uint32_t v) {
    std::vector<std::vector<Input>> groups(1);
    std::vector<std::vector<std::uint32_t>> scopes(1, {v});  // sorted
    for (Input& input : waiting_[v]) {
      std::size_t group = 0;
      for (;; ++group) {
        if (group == groups.size()) {
          groups.emplace_back();
          scopes.push_back({v});
        }
        const std::vector<std::uint32_t> joined = join(scopes[group], input.variables);
        if (!groups[group].empty() && entries(joined) > limit_) continue;
        scopes[group] = joined;
        break;
      }
      groups[group].push_back(std::move(input));
    }
    for (std::size_t i = 0; i < groups.size(); ++i) add_bucket(v, scopes[i], groups[i], i == 0);
    if (groups.size() > 1) plan_.exact = false;
    waiting_[v].clear();
  }

  static std::vector<std::uint32_t> join(const std::vector<std::uint32_t>& scope, std::vector<std::uint32_t> more) {
    std::sort(more.begin(), more.end());
    std::vector<std::uint32_t> result;
    std::set_union(scope.begin(), scope.end(), more.begin(), more.end(), std::back_inserter(result));
    return result;
  }

  [[nodiscard]] double entries(const std::vector<std::uint32_t>& scope) const {
    double count = 1;
    for (const std::uint32_t v : scope) count *= problem_.domains[v];
    return count;
  }

  // The separator stands in the order of elimination, so that alike layers make alike scopes, but for the largest
  // domain, over which the inner loop runs.
  std::vector<std::uint32_t> arrange(std::uint32_t v, const std::vector<std::uint32_t>& scope) const {
    std::vector<std::uint32_t> result = {v};
    for (const std::uint32_t other : scope) {
      if (other != v) result.push_back(other);
    }
    std::sort(result.begin() + 1, result.end(), [this](auto a, auto b) { return position_[a] < position_[b]; });
    if (result.size() > 2) {
      const auto largest = std::max_element(result.begin() + 1, result.end(), [this](auto a, auto b) {
        return problem_.domains[a] < problem_.domains[b];
      });
      std::rotate(largest, largest + 1, result.end());
    }
    return result;
  }

  void add_bucket(std::uint32_t v, const std::vector<std::uint32_t>& scope, const std::vector<Input>& inputs,
                  bool first) {
    Bucket bucket;
    bucket.variable = v;
    bucket.has_unary = first;
    bucket.scope = arrange(v, scope);
    const auto index = static_cast<std::uint32_t>(plan_.buckets.size());
    for (const Input& input : inputs) {
      bucket.components.push_back(component(input, bucket.scope));
      if (input.is_message) bucket.children.push_back(input.index);
    }
    plan_.width = std::max(plan_.width, bucket.scope.size() - 1);
    plan_.of_variable[v].push_back(index);
    if (bucket.scope.size() > 1) wait({true, index, {bucket.scope.begin() + 1, bucket.scope.end()}});
    plan_.buckets.push_back(std::move(bucket));
  }

  static Component component(const Input& input, const std::vector<std::uint32_t>& scope) {
    Component result;
    result.is_message = input.is_message;
    result.index = input.index;
    for (const std::uint32_t variable : input.variables) {
      const auto place = std::find(scope.begin(), scope.end(), variable);
      result.positions.push_back(static_cast<std::uint32_t>(place - scope.begin()));
    }
    if (!input.is_message && result.positions[0] > result.positions[1]) {
      std::swap(result.positions[0], result.positions[1]);
      result.transposed = true;
    }
    return result;
  }

  const Problem& problem_;
  const double limit_;
  std::vector<std::uint32_t> position_;
  std::vector<std::vector<Input>> waiting_;
  JoinPlan plan_;
};

}  // namespace

JoinPlan make_join_plan(const Problem& problem, const Order& order, double max_table_entries) {
  return Planner(problem, order, max_table_entries).run();
}

}  // namespace meshwright::elimination
