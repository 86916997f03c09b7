#include "forest_window.h"

#include <algorithm>

#include "wide_vectors.h"

namespace meshwright {

namespace {

// least[p] = min over s of sums[s] + table[s * count + p].
MESHWRIGHT_WIDE_VECTORS void pass(const double* table, const double* sums, std::size_t domain, std::size_t count,
                                  double* least) {
  std::fill(least, least + count, kNever);
  for (std::size_t s = 0; s < domain; ++s, table += count) {
    const double own = sums[s];
    for (std::size_t p = 0; p < count; ++p) {
      const double sum = own + table[p];
      least[p] = sum < least[p] ? sum : least[p];
    }
  }
}

}  // namespace

ForestWindow::ForestWindow(const CompactSpace& space)
    : PricedWindow(space), union_(space.size(), kNobody), position_(space.size(), kNobody) {}

std::uint32_t ForestWindow::root_of(std::uint32_t node) {
  while (union_[node] != node) node = union_[node] = union_[union_[node]];
  return node;
}

void ForestWindow::set_nodes(std::span<const std::uint32_t> nodes) {
  for (const std::uint32_t node : order_) union_[node] = position_[node] = kNobody;
  std::vector<std::uint32_t> chosen;
  std::vector<std::uint32_t> roots;
  for (const std::uint32_t node : nodes) {
    if (union_[node] != kNobody) continue;
    roots.clear();
    bool closes = false;
    for (const CompactSpace::Link& link : space_.links(node)) {
      if (union_[link.other] == kNobody) continue;
      const std::uint32_t root = root_of(link.other);
      closes = closes || std::find(roots.begin(), roots.end(), root) != roots.end();
      roots.push_back(root);
    }
    if (closes) continue;
    union_[node] = node;
    for (const std::uint32_t root : roots) union_[root] = node;
    chosen.push_back(node);
  }
  order_.clear();
  members_.clear();
  std::size_t offset = 0;
  const auto add = [&](std::uint32_t node, Member member) {
    position_[node] = static_cast<std::uint32_t>(order_.size());
    member.offset = offset;
    offset += space_.domain(node);
    order_.push_back(node);
    members_.push_back(member);
  };
  for (const std::uint32_t root : chosen) {
    if (position_[root] != kNobody) continue;
    add(root, {});
    for (std::size_t next = order_.size() - 1; next < order_.size(); ++next) {
      const std::uint32_t node = order_[next];
      for (const CompactSpace::Link& link : space_.links(node)) {
        if (union_[link.other] == kNobody || position_[link.other] != kNobody) continue;
        add(link.other, {static_cast<std::uint32_t>(next), link.by_other, 0});
      }
    }
  }
  begin_ = static_cast<std::uint32_t>(space_.rooms().size());
  end_ = 0;
  for (const std::uint32_t node : order_) {
    for (const CompactSpace::Term& term : space_.terms(node)) {
      begin_ = std::min(begin_, term.begin);
      end_ = std::max(end_, term.end);
    }
  }
  begin_ = std::min(begin_, end_);
}

void ForestWindow::load(const SearchState& state) {
  costs_.clear();
  current_.clear();
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::uint32_t node = order_[i];
    current_.push_back(state.choice()[node]);
    const auto costs = state.costs_of(node);
    costs_.insert(costs_.end(), costs.begin(), costs.end());
    double* own = costs_.data() + members_[i].offset;
    for (const CompactSpace::Link& link : space_.links(node)) {
      if (position_[link.other] == kNobody) continue;
      const double* row = link.by_other + std::size_t{state.choice()[link.other]} * costs.size();
      for (std::size_t s = 0; s < costs.size(); ++s) own[s] -= std::min(row[s], state.penalty());
    }
    work_ += static_cast<std::int64_t>(costs.size() * (1 + space_.links(node).size()));
  }
  load_rooms(state);
}

void ForestWindow::hold(std::span<const std::uint32_t> strategies, std::vector<std::int64_t>& bytes) const {
  bytes.assign(end_ - begin_ + 1, 0);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    for (const CompactSpace::Term& term : space_.terms(order_[i])) {
      bytes[term.begin - begin_] += term.bytes[strategies[i]];
      bytes[term.end - begin_] -= term.bytes[strategies[i]];
    }
  }
  for (std::size_t t = 1; t < bytes.size(); ++t) bytes[t] += bytes[t - 1];
}

double ForestWindow::plain_cost(std::span<const std::uint32_t> strategies) const {
  double sum = 0;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Member& member = members_[i];
    sum += costs_[member.offset + strategies[i]];
    if (member.parent == kNobody) continue;
    sum += member.by_own[std::size_t{strategies[i]} * space_.domain(order_[member.parent]) + strategies[member.parent]];
  }
  return sum;
}

// `priced_before[t]`: the prices of the points before begin_ + t. The least priced cost; sets solution_.
double ForestWindow::solve(std::span<const double> priced_before) {
  sums_ = costs_;
  std::vector<double>& least = least_;
  double value = 0;
  for (std::size_t i = order_.size(); i-- > 0;) {
    const Member& member = members_[i];
    const std::uint32_t domain = space_.domain(order_[i]);
    double* sums = sums_.data() + member.offset;
    for (const CompactSpace::Term& term : space_.terms(order_[i])) {
      const double price = priced_before[term.end - begin_] - priced_before[term.begin - begin_];
      if (price == 0) continue;
      for (std::uint32_t s = 0; s < domain; ++s) sums[s] += price * static_cast<double>(term.bytes[s]);
    }
    work_ += static_cast<std::int64_t>(domain * (1 + space_.terms(order_[i]).size()));
    if (member.parent == kNobody) {
      value += *std::min_element(sums, sums + domain);
      continue;
    }
    const std::uint32_t columns = space_.domain(order_[member.parent]);
    least.resize(columns);
    pass(member.by_own, sums, domain, columns, least.data());
    double* parent = sums_.data() + members_[member.parent].offset;
    for (std::uint32_t p = 0; p < columns; ++p) parent[p] += least[p];
    work_ += std::int64_t{domain} * columns;
  }
  solution_.resize(order_.size());
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Member& member = members_[i];
    const std::uint32_t domain = space_.domain(order_[i]);
    const double* sums = sums_.data() + member.offset;
    double best = kNever;
    solution_[i] = current_[i];
    for (std::uint32_t s = 0; s < domain; ++s) {
      double sum = sums[s];
      if (member.parent != kNobody) {
        sum += member.by_own[std::size_t{s} * space_.domain(order_[member.parent]) + solution_[member.parent]];
      }
      if (sum < best) {
        best = sum;
        solution_[i] = s;
      }
    }
  }
  return value;
}

WindowOutcome ForestWindow::improve(const SearchState& state, std::span<const double> prices, int most_rounds,
                                    std::span<const double> noise) {
  load(state);
  for (std::size_t i = 0; i < order_.size() && !noise.empty(); ++i) {
    const double* more = noise.data() + space_.offset(order_[i]);
    for (std::uint32_t s = 0; s < space_.domain(order_[i]); ++s) costs_[members_[i].offset + s] += more[s];
  }
  return search_by_prices(state, prices, most_rounds);
}

}  // namespace meshwright
