#include "width_window.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "wide_vectors.h"

namespace meshwright {

namespace {

// joint[i] += part[stride * i]
MESHWRIGHT_WIDE_VECTORS void add_row(double* joint, const double* part, std::size_t stride, std::size_t count) {
  if (stride == 1) {
    for (std::size_t i = 0; i < count; ++i) joint[i] += part[i];
  } else if (stride == 0) {
    const double value = *part;
    for (std::size_t i = 0; i < count; ++i) joint[i] += value;
  } else {
    for (std::size_t i = 0; i < count; ++i) joint[i] += part[stride * i];
  }
}

MESHWRIGHT_WIDE_VECTORS void take_least(double* least, const double* row, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) least[i] = row[i] < least[i] ? row[i] : least[i];
}

}  // namespace

WidthWindow::WidthWindow(const CompactSpace& space) : PricedWindow(space), position_(space.size(), kNobody) {}

void WidthWindow::set_nodes(std::span<const std::uint32_t> nodes,
                            std::span<const std::vector<std::uint32_t>> candidates, double most_entries) {
  for (const std::uint32_t node : nodes_) position_[node] = kNobody;
  const std::size_t size = nodes.size();
  for (std::uint32_t i = 0; i < size; ++i) position_[nodes[i]] = i;
  std::vector<std::vector<std::uint32_t>> around(size);
  std::vector<double> domains(size);
  std::vector<std::size_t> ranks(size);  // logarithms of domains, rounded: the same with every library
  for (std::uint32_t i = 0; i < size; ++i) {
    domains[i] = candidates.empty() ? space_.domain(nodes[i]) : static_cast<double>(candidates[i].size());
    ranks[i] = static_cast<std::size_t>(std::lround(1024 * std::log2(domains[i])));
    for (const CompactSpace::Link& link : space_.links(nodes[i])) {
      if (position_[link.other] != kNobody) around[i].push_back(position_[link.other]);
    }
    std::sort(around[i].begin(), around[i].end());
    work_ += 2 * static_cast<std::int64_t>(space_.links(nodes[i]).size());
  }
  const auto weight = [&](std::uint32_t i) {
    double entries = domains[i];
    for (const std::uint32_t other : around[i]) entries *= domains[other];
    return entries;
  };
  std::vector<double> weights(size);
  std::set<std::pair<double, std::uint32_t>> queue;
  for (std::uint32_t i = 0; i < size; ++i) queue.insert({weights[i] = weight(i), i});
  std::vector<std::uint32_t> order;
  std::vector<bool> out(size, false);
  const auto update = [&](std::uint32_t i) {
    queue.erase({weights[i], i});
    queue.insert({weights[i] = weight(i), i});
  };
  while (!queue.empty()) {
    std::uint32_t i = queue.begin()->second;
    const bool leave_out = queue.begin()->first > most_entries;
    if (leave_out) {  // of the node and its neighbours, the one with the most of them
      std::uint32_t most = i;
      for (const std::uint32_t other : around[i]) {
        if (ranks[other] * around[other].size() > ranks[most] * around[most].size()) most = other;
      }
      i = most;
      out[i] = true;
    } else {
      order.push_back(i);
    }
    queue.erase({weights[i], i});
    const std::vector<std::uint32_t> list = std::move(around[i]);
    around[i].clear();
    for (const std::uint32_t a : list) {
      auto& of_a = around[a];
      of_a.erase(std::lower_bound(of_a.begin(), of_a.end(), i));
      if (!leave_out) {
        for (const std::uint32_t b : list) {
          if (b == a) continue;
          const auto place = std::lower_bound(of_a.begin(), of_a.end(), b);
          if (place == of_a.end() || *place != b) of_a.insert(place, b);
        }
      }
      work_ += 1 + static_cast<std::int64_t>(of_a.size());
    }
    for (const std::uint32_t a : list) update(a);
    work_ += 8;
  }
  for (const std::uint32_t node : nodes) position_[node] = kNobody;
  nodes_.clear();
  candidates_.clear();
  for (const std::uint32_t i : order) {
    position_[nodes[i]] = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back(nodes[i]);
    std::vector<std::uint32_t>& own = candidates_.emplace_back();
    if (candidates.empty()) {
      for (std::uint32_t s = 0; s < space_.domain(nodes[i]); ++s) own.push_back(s);
    } else {
      own = candidates[i];
    }
  }
  plan();
}

void WidthWindow::plan() {
  const std::size_t size = nodes_.size();
  buckets_.assign(size, {});
  tables_.clear();
  pairs_.clear();
  offsets_.clear();
  std::size_t offset = 0;
  std::vector<std::vector<std::uint32_t>> later(size), children(size);
  begin_ = static_cast<std::uint32_t>(space_.rooms().size());
  end_ = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    offsets_.push_back(offset);
    offset += count(i);
    for (const CompactSpace::Link& link : space_.links(nodes_[i])) {
      const std::uint32_t j = position_[link.other];
      if (j == kNobody || j < i) continue;
      later[i].push_back(j);
      std::vector<double>& table = tables_.emplace_back();
      for (const std::uint32_t s : candidates_[i]) {
        const double* row = link.by_own + std::size_t{s} * space_.domain(link.other);
        for (const std::uint32_t t : candidates_[j]) table.push_back(row[t]);
      }
      work_ += static_cast<std::int64_t>(table.size());
      pairs_.push_back({i, j, static_cast<std::uint32_t>(tables_.size() - 1)});
    }
    for (const CompactSpace::Term& term : space_.terms(nodes_[i])) {
      begin_ = std::min(begin_, term.begin);
      end_ = std::max(end_, term.end);
    }
  }
  begin_ = std::min(begin_, end_);
  for (std::uint32_t i = 0; i < size; ++i) {
    Bucket& bucket = buckets_[i];
    std::vector<std::uint32_t>& scope = bucket.scope;
    scope = later[i];
    for (const std::uint32_t child : children[i])
      scope.insert(scope.end(), buckets_[child].scope.begin(), buckets_[child].scope.end());
    std::sort(scope.begin(), scope.end());
    scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
    scope.erase(std::remove(scope.begin(), scope.end(), i), scope.end());
    if (!scope.empty()) children[scope.front()].push_back(i);
    std::stable_sort(scope.begin(), scope.end(),
                     [this](std::uint32_t a, std::uint32_t b) { return count(a) < count(b); });
    for (const std::uint32_t j : scope) bucket.entries *= count(j);
  }
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    Bucket& bucket = buckets_[i];
    for (; next < pairs_.size() && pairs_[next].first == i; ++next) {
      Part& part = bucket.parts.emplace_back();
      part.table = pairs_[next].table;
      part.own = count(pairs_[next].second);
      for (const std::uint32_t j : bucket.scope) part.strides.push_back(j == pairs_[next].second ? 1 : 0);
    }
    for (const std::uint32_t child : children[i]) {
      Part& part = bucket.parts.emplace_back();
      part.message = child;
      part.strides.assign(bucket.scope.size(), 0);
      std::size_t stride = 1;
      for (std::size_t k = buckets_[child].scope.size(); k-- > 0;) {
        const std::uint32_t j = buckets_[child].scope[k];
        if (j == i) {
          part.own = stride;
        } else {
          part.strides[static_cast<std::size_t>(std::find(bucket.scope.begin(), bucket.scope.end(), j) -
                                                bucket.scope.begin())] = stride;
        }
        stride *= count(j);
      }
    }
  }
}

void WidthWindow::load(const SearchState& state) {
  costs_.clear();
  current_.clear();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const std::uint32_t node = nodes_[i];
    const std::vector<std::uint32_t>& own = candidates_[i];
    current_.push_back(
        static_cast<std::uint32_t>(std::lower_bound(own.begin(), own.end(), state.choice()[node]) - own.begin()));
    const auto costs = state.costs_of(node);
    for (const std::uint32_t s : own) costs_.push_back(costs[s]);
    double* to = costs_.data() + offsets_[i];
    for (const CompactSpace::Link& link : space_.links(node)) {
      if (position_[link.other] == kNobody) continue;
      const double* row = link.by_other + std::size_t{state.choice()[link.other]} * costs.size();
      for (std::size_t s = 0; s < own.size(); ++s) to[s] -= std::min(row[own[s]], state.penalty());
    }
    work_ += static_cast<std::int64_t>(own.size() * (1 + space_.links(node).size()));
  }
  load_rooms(state);
}

void WidthWindow::hold(std::span<const std::uint32_t> strategies, std::vector<std::int64_t>& bytes) const {
  bytes.assign(end_ - begin_ + 1, 0);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const CompactSpace::Term& term : space_.terms(nodes_[i])) {
      bytes[term.begin - begin_] += term.bytes[candidates_[i][strategies[i]]];
      bytes[term.end - begin_] -= term.bytes[candidates_[i][strategies[i]]];
    }
  }
  for (std::size_t t = 1; t < bytes.size(); ++t) bytes[t] += bytes[t - 1];
}

double WidthWindow::plain_cost(std::span<const std::uint32_t> strategies) const {
  double sum = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) sum += costs_[offsets_[i] + strategies[i]];
  for (const Pair& pair : pairs_)
    sum += tables_[pair.table][std::size_t{strategies[pair.first]} * count(pair.second) + strategies[pair.second]];
  return sum;
}

// joint_[own][separator] of all parts, then the least over own.
void WidthWindow::join(std::uint32_t i) {
  Bucket& bucket = buckets_[i];
  const std::size_t width = bucket.scope.size();
  const std::size_t row = width == 0 ? 1 : count(bucket.scope.back());
  bucket.message.assign(bucket.entries, kNever);
  joint_.resize(std::max(joint_.size(), bucket.entries));
  at_.assign(width, 0);
  for (std::uint32_t s = 0; s < count(i); ++s) {
    std::fill(joint_.begin(), joint_.begin() + static_cast<std::ptrdiff_t>(bucket.entries), sums_[offsets_[i] + s]);
    for (const Part& part : bucket.parts) {
      const double* base =
          (part.message == kNobody ? tables_[part.table].data() : buckets_[part.message].message.data()) + part.own * s;
      const std::size_t stride = width == 0 ? 0 : part.strides.back();
      std::fill(at_.begin(), at_.end(), 0);
      std::size_t place = 0;
      for (std::size_t done = 0; done < bucket.entries; done += row) {
        add_row(joint_.data() + done, base + place, stride, row);
        for (std::size_t k = width == 0 ? 0 : width - 1; k-- > 0;) {
          place += part.strides[k];
          if (++at_[k] < count(bucket.scope[k])) break;
          place -= part.strides[k] * at_[k];
          at_[k] = 0;
        }
      }
    }
    take_least(bucket.message.data(), joint_.data(), bucket.entries);
  }
  work_ += static_cast<std::int64_t>(bucket.entries * count(i) * (1 + bucket.parts.size()) / 2);
}

double WidthWindow::solve(std::span<const double> priced_before) {
  sums_ = costs_;
  double value = 0;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    double* sums = sums_.data() + offsets_[i];
    for (const CompactSpace::Term& term : space_.terms(nodes_[i])) {
      const double price = priced_before[term.end - begin_] - priced_before[term.begin - begin_];
      if (price == 0) continue;
      for (std::uint32_t s = 0; s < count(i); ++s)
        sums[s] += price * static_cast<double>(term.bytes[candidates_[i][s]]);
    }
    join(i);
    if (buckets_[i].scope.empty()) value += buckets_[i].message[0];
  }
  solution_.assign(nodes_.size(), 0);
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    double best = kNever;
    solution_[i] = current_[i];
    for (std::uint32_t s = 0; s < candidates_[i].size(); ++s) {
      double sum = sums_[offsets_[i] + s];
      for (const Part& part : buckets_[i].parts) {
        std::size_t place = part.own * s;
        for (std::size_t k = 0; k < part.strides.size(); ++k)
          place += part.strides[k] * solution_[buckets_[i].scope[k]];
        sum += part.message == kNobody ? tables_[part.table][place] : buckets_[part.message].message[place];
      }
      if (sum < best) {
        best = sum;
        solution_[i] = s;
      }
    }
  }
  return value;
}

WindowOutcome WidthWindow::improve(const SearchState& state, std::span<const double> prices, int most_rounds) {
  load(state);
  const WindowOutcome outcome = search_by_prices(state, prices, most_rounds);
  for (std::size_t i = 0; i < nodes_.size(); ++i) solution_[i] = candidates_[i][solution_[i]];
  return outcome;
}

}  // namespace meshwright
