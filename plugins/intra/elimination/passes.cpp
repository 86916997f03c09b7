#include "passes.h"

#include <algorithm>
#include <numeric>

namespace meshwright::elimination {

namespace {

const std::vector<std::uint32_t> kVariableAlone = {0};

// Takes the least entry off all that are allowed, and returns it: kForbidden if none is.
Ticks normalize(std::vector<Ticks>& values) {
  const Ticks least = *std::min_element(values.begin(), values.end());
  for (Ticks& value : values) value = value >= kForbidden ? kForbidden : value - least;
  return std::min(least, kForbidden);
}

std::size_t index_in(const std::vector<std::uint32_t>& positions, const Bucket& bucket, const Problem& problem,
                     const std::vector<std::uint32_t>& choice) {
  std::size_t index = 0;
  for (const std::uint32_t position : positions) {
    const std::uint32_t variable = bucket.scope[position];
    index = index * problem.domains[variable] + choice[variable];
  }
  return index;
}

// By how much that grows from one strategy of a variable to the next; 0 where it does not depend on it.
std::size_t stride_in(const std::vector<std::uint32_t>& positions, const Bucket& bucket, const Problem& problem, std::uint32_t variable) {
  std::size_t stride = 1, found = 0;
  for (std::size_t i = positions.size(); i-- > 0;) {
    if (bucket.scope[positions[i]] == variable) found += stride;
    stride *= problem.domains[bucket.scope[positions[i]]];
  }
  return found;
}

}  // namespace

TableId Passes::table_of(const Component& component, const Forward& forward) const {
  if (component.is_message) return forward.messages[component.index];
  const Pair& pair = problem_.pairs[component.index];
  const TableId table = forward.masks ? pair.mask : pair.table;
  if (!component.transposed) return table;
  return problem_.store.transpose(table, problem_.domains[pair.first], problem_.domains[pair.second]);
}

std::vector<TableId> Passes::inputs_of(const Bucket& bucket, const Forward& forward) const {
  std::vector<TableId> tables;
  for (const Component& component : bucket.components) tables.push_back(table_of(component, forward));
  if (bucket.has_unary) tables.push_back(forward.unaries[bucket.variable]);
  return tables;
}

Passes::Key Passes::key_of(const Bucket& bucket, const std::vector<TableId>& tables) const {
  Key key = {static_cast<std::uint32_t>(bucket.scope.size()), bucket.has_unary};
  for (const std::uint32_t variable : bucket.scope) key.push_back(problem_.domains[variable]);
  for (const Component& component : bucket.components) {
    key.push_back(static_cast<std::uint32_t>(component.positions.size()));
    key.push_back(component.is_message);  // A pair's table may be one of a message, which has a child that waits for its share.
    key.insert(key.end(), component.positions.begin(), component.positions.end());
  }
  key.insert(key.end(), tables.begin(), tables.end());
  return key;
}

JoinInput Passes::join_input(const Bucket& bucket, const std::vector<TableId>& tables) const {
  JoinInput input;
  for (const std::uint32_t variable : bucket.scope) input.domains.push_back(problem_.domains[variable]);
  for (std::size_t i = 0; i < bucket.components.size(); ++i) {
    input.tables.push_back({&problem_.store[tables[i]], &bucket.components[i].positions});
  }
  if (bucket.has_unary) input.tables.push_back({&problem_.store[tables.back()], &kVariableAlone});
  return input;
}

std::optional<Forward> Passes::forward(const Unaries& unary, bool masks) {
  problem_.store.truncate(problem_.base_tables);
  joined_.clear();
  Forward result;
  result.masks = masks;
  for (const auto& costs : unary) result.unaries.push_back(problem_.store.intern(costs));
  for (const Bucket& bucket : plan_.buckets) {
    const std::vector<TableId> tables = inputs_of(bucket, result);
    if (!memo_) joined_.clear();
    const auto [known, is_new] = joined_.emplace(key_of(bucket, tables), Joined{0, 0});
    if (is_new) {
      const JoinInput input = join_input(bucket, tables);
      if (!meter_.spend(static_cast<std::int64_t>(entries(input)))) return std::nullopt;
      std::vector<Ticks> message = join_and_minimize(input);
      known->second.offset = normalize(message);
      known->second.message = problem_.store.intern(std::move(message));
    }
    TickSum offset = known->second.offset;
    if (offset >= kForbidden) {
      result.allowed = false;
      return result;
    }
    for (const std::uint32_t child : bucket.children) offset += result.offsets[child];
    result.messages.push_back(known->second.message);
    result.offsets.push_back(offset);
    if (bucket.scope.size() == 1) result.value += offset;
  }
  trace_back(result);
  return result;
}

// The last eliminated variable chooses first. A forbidden choice can only be forced where the plan was split.
void Passes::trace_back(Forward& forward) const {
  forward.choice.resize(problem_.size());
  for (auto v = plan_.order.rbegin(); v != plan_.order.rend(); ++v) {
    std::vector<Ticks> sums = problem_.store[forward.unaries[*v]];  // by strategy
    forward.choice[*v] = 0;
    for (const std::uint32_t id : plan_.of_variable[*v]) {
      const Bucket& bucket = plan_.buckets[id];
      for (const Component& component : bucket.components) {
        const std::vector<Ticks>& values = problem_.store[table_of(component, forward)];
        std::size_t index = index_in(component.positions, bucket, problem_, forward.choice);
        const std::size_t stride = stride_in(component.positions, bucket, problem_, *v);
        for (Ticks& sum : sums) {
          sum = std::min(kForbidden, sum + values[index]);
          index += stride;
        }
      }
    }
    forward.choice[*v] = static_cast<std::uint32_t>(std::min_element(sums.begin(), sums.end()) - sums.begin());
  }
}

// What the bucket's outside and its own tables say to its variable and to its children. A child's share is the
// minimum of all less the child's own message, which is a constant where the child's separator is set.
Passes::Spread Passes::spread(const Bucket& bucket, const std::vector<TableId>& tables, TableId outside,
                              const Forward& forward) {
  JoinInput input = join_input(bucket, tables);
  std::vector<std::uint32_t> separator(bucket.scope.size() - 1);
  std::iota(separator.begin(), separator.end(), 1U);
  if (!separator.empty()) input.tables.push_back({&problem_.store[outside], &separator});
  std::vector<Ticks> joint = join(input);
  Spread result;
  result.rise = project(joint, input.domains, kVariableAlone);
  normalize(result.rise);
  for (const Component& component : bucket.components) {
    if (!component.is_message) continue;
    std::vector<Ticks> share = project(joint, input.domains, component.positions);
    const std::vector<Ticks>& message = problem_.store[forward.messages[component.index]];
    for (std::size_t i = 0; i < share.size(); ++i) {
      if (share[i] < kForbidden) share[i] -= message[i];
    }
    normalize(share);
    result.to_children.push_back(problem_.store.intern(std::move(share)));
  }
  return result;
}

std::optional<Backward> Passes::backward(const Forward& forward) {
  Backward result;
  result.rise.resize(problem_.size());
  result.outside.resize(plan_.buckets.size());
  const TableId nothing = problem_.store.intern({0});
  for (std::size_t i = 0; i < plan_.buckets.size(); ++i) {
    if (plan_.buckets[i].scope.size() == 1) result.outside[i] = nothing;
  }
  std::map<Key, Spread> known;
  for (std::size_t i = plan_.buckets.size(); i-- > 0;) {
    const Bucket& bucket = plan_.buckets[i];
    const std::vector<TableId> tables = inputs_of(bucket, forward);
    if (!memo_) known.clear();
    Key key = key_of(bucket, tables);
    key.push_back(result.outside[i]);
    auto place = known.find(key);
    if (place == known.end()) {
      std::int64_t steps = static_cast<std::int64_t>(1 + bucket.children.size());
      for (const std::uint32_t variable : bucket.scope) steps *= problem_.domains[variable];
      if (!meter_.spend(steps)) return std::nullopt;
      place = known.emplace(std::move(key), spread(bucket, tables, result.outside[i], forward)).first;
    }
    result.rise[bucket.variable] = place->second.rise;
    for (std::size_t c = 0; c < bucket.children.size(); ++c)
      result.outside[bucket.children[c]] = place->second.to_children[c];
  }
  return result;
}

}  // namespace meshwright::elimination
