#include "compact_space.h"

#include <algorithm>
#include <map>

namespace meshwright {

namespace {

constexpr TickSum kMostOfAll = TickSum{1} << 50;

Ticks largest(const std::vector<Ticks>& costs) {
  Ticks result = 0;
  for (const Ticks cost : costs) result = cost < kForbidden ? std::max(result, cost) : result;
  return result;
}

int shift_for(const StrategySpace& space) {
  const TickSum total = most_cost(space);
  int shift = 0;
  while ((total >> shift) >= kMostOfAll) ++shift;
  return shift;
}

double scaled(Ticks cost, int shift) { return cost >= kForbidden ? kNever : static_cast<double>(cost >> shift); }

std::vector<double> transposed(const std::vector<double>& table, std::size_t rows, std::size_t columns) {
  std::vector<double> result(table.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) result[column * rows + row] = table[row * columns + column];
  }
  return result;
}

}  // namespace

TickSum most_cost(const StrategySpace& space) {
  TickSum sum = 0;
  std::vector<Ticks> of_table;
  for (const SpaceNode& node : space.nodes) sum += largest(node.costs);
  for (const CostTable& table : space.tables) of_table.push_back(largest(table.costs));
  for (const SpaceEdge& edge : space.edges) sum += of_table[edge.table];
  return sum;
}

CompactSpace::CompactSpace(const StrategySpace& space, std::int64_t budget) : shift_(shift_for(space)) {
  for (const SpaceNode& node : space.nodes) {
    domains_.push_back(static_cast<std::uint32_t>(node.costs.size()));
    offsets_.push_back(unary_.size());
    for (const Ticks cost : node.costs) unary_.push_back(scaled(cost, shift_));
  }
  add_tables(space);
  add_memory(space, budget);
}

void CompactSpace::add_tables(const StrategySpace& space) {
  // By pair of nodes: the edges that join it, and whether each runs from the smaller to the larger number.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::pair<std::uint32_t, bool>>> joined;
  for (const SpaceEdge& edge : space.edges) {
    joined[std::minmax(edge.from, edge.to)].push_back({edge.table, edge.from < edge.to});
  }
  std::vector<std::vector<std::pair<std::uint32_t, Link>>> links(size());
  std::map<std::vector<std::pair<std::uint32_t, bool>>, std::size_t> known;
  tables_.reserve(2 * joined.size());  // so that pointers into it stay valid
  for (const auto& [pair, parts] : joined) {
    const auto& [first, second] = pair;
    const std::size_t rows = domains_[first];
    const std::size_t columns = domains_[second];
    const auto [place, is_new] = known.emplace(parts, tables_.size());
    if (is_new) {
      std::vector<double> sum(rows * columns, 0);
      for (const auto& [id, forward] : parts) {
        for (std::size_t row = 0; row < rows; ++row) {
          for (std::size_t column = 0; column < columns; ++column) {
            const std::size_t at = forward ? row * columns + column : column * rows + row;
            sum[row * columns + column] += scaled(space.tables[id].costs[at], shift_);
          }
        }
      }
      tables_.push_back(transposed(sum, rows, columns));
      tables_.push_back(std::move(sum));
    }
    const double* by_second = tables_[place->second].data();
    const double* by_first = tables_[place->second + 1].data();
    const auto id = static_cast<std::uint32_t>(edges_.size());
    edges_.push_back({first, second});
    entries_ += static_cast<std::int64_t>(rows * columns);
    links[first].push_back({second, {second, id, true, by_second, by_first}});
    links[second].push_back({first, {first, id, false, by_first, by_second}});
  }
  for (auto& of_node : links) {
    std::sort(of_node.begin(), of_node.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    first_link_.push_back(links_.size());
    for (const auto& [other, link] : of_node) links_.push_back(link);
  }
  first_link_.push_back(links_.size());
}

void CompactSpace::add_memory(const StrategySpace& space, std::int64_t budget) {
  std::vector<std::int32_t>& times = times_;  // a peak is reached where something begins
  for (const MemoryTerm& term : space.memory) times.push_back(term.begin);
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  rooms_.assign(times.size(), budget - space.fixed_bytes);
  const auto point = [&times](std::int32_t time) {
    return static_cast<std::uint32_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  std::vector<std::vector<Term>> terms(size());
  std::size_t count = 0;
  for (const MemoryTerm& term : space.memory) count += term.bytes.size();
  bytes_.reserve(count);  // so that pointers into it stay valid
  for (const MemoryTerm& term : space.memory) {
    const std::uint32_t begin = point(term.begin);
    const std::uint32_t end = point(term.end);
    const std::int64_t least = *std::min_element(term.bytes.begin(), term.bytes.end());
    for (std::uint32_t t = begin; t < end; ++t) rooms_[t] -= least;
    if (std::all_of(term.bytes.begin(), term.bytes.end(), [least](std::int64_t bytes) { return bytes == least; })) continue;
    terms[term.node].push_back({begin, end, bytes_.data() + bytes_.size()});
    for (const std::int64_t bytes : term.bytes) bytes_.push_back(bytes - least);
  }
  for (const auto& of_node : terms) {
    first_term_.push_back(terms_.size());
    terms_.insert(terms_.end(), of_node.begin(), of_node.end());
  }
  first_term_.push_back(terms_.size());
}

}  // namespace meshwright
