#include "search_state.h"

#include <algorithm>

namespace meshwright {

namespace {

// Sums of as many penalties as a node has edges are still whole numbers.
double penalty_for(const CompactSpace& space) {
  constexpr double kWhole = 4503599627370496.0;  // 2^52
  std::size_t most = 0;
  for (std::uint32_t node = 0; node < space.size(); ++node) most = std::max(most, space.links(node).size());
  double total = 1;
  for (std::uint32_t node = 0; node < space.size(); ++node) {
    double largest = 0;
    for (std::uint32_t s = 0; s < space.domain(node); ++s) {
      const double cost = space.unary()[space.offset(node) + s];
      if (cost < kNever) largest = std::max(largest, cost);
    }
    total += largest;
    for (const CompactSpace::Link& link : space.links(node)) {
      if (!link.is_first) continue;
      double of_edge = 0;
      const std::size_t entries = std::size_t{space.domain(node)} * space.domain(link.other);
      for (std::size_t i = 0; i < entries; ++i) {
        if (link.by_own[i] < kNever) of_edge = std::max(of_edge, link.by_own[i]);
      }
      total += of_edge;
    }
  }
  return std::min(total, kWhole / static_cast<double>(most + 2));
}

}  // namespace

SearchState::SearchState(const CompactSpace& space, std::vector<std::uint32_t> choice)
    : space_(&space), choice_(std::move(choice)), penalty_(penalty_for(space)), over_([&space] {
        std::vector<std::int64_t> over;
        for (const std::int64_t room : space.rooms()) over.push_back(-room);
        return RangePeaks(over);
      }()) {
  for (const double cost : space.unary()) costs_.push_back(std::min(cost, penalty_));
  for (std::uint32_t node = 0; node < space.size(); ++node) {
    double* costs = costs_.data() + space.offset(node);
    for (const CompactSpace::Link& link : space.links(node)) {
      const double* row = link.by_other + std::size_t{choice_[link.other]} * space.domain(node);
      for (std::uint32_t s = 0; s < space.domain(node); ++s) costs[s] += std::min(row[s], penalty_);
    }
    for (const CompactSpace::Term& term : space.terms(node)) over_.add(term.begin, term.end, term.bytes[choice_[node]]);
  }
  recount();
}

void SearchState::recount() {
  cost_ = 0;
  for (std::uint32_t node = 0; node < space_->size(); ++node) {
    cost_ += std::min(space_->unary()[space_->offset(node) + choice_[node]], penalty_);
    for (const CompactSpace::Link& link : space_->links(node)) {
      if (!link.is_first) continue;
      cost_ += std::min(link.by_own[std::size_t{choice_[node]} * space_->domain(link.other) + choice_[link.other]], penalty_);
    }
  }
}

void SearchState::go_back(std::size_t mark) {
  while (log_.size() > mark) {
    const auto [node, strategy] = log_.back();
    move(node, strategy);
    log_.resize(log_.size() - 2);  // that move logged itself too
  }
}

void SearchState::hold(std::uint32_t node, std::uint32_t from, std::uint32_t to) {
  for (const CompactSpace::Term& term : space_->terms(node)) {
    if (const std::int64_t more = term.bytes[to] - term.bytes[from]; more != 0) over_.add(term.begin, term.end, more);
  }
}

std::int64_t SearchState::bytes_over_after(std::uint32_t node, std::uint32_t strategy) {
  const auto terms = space_->terms(node);
  const std::uint32_t now = choice_[node];
  if (terms.size() == 1) {
    const std::int64_t more = terms[0].bytes[strategy] - terms[0].bytes[now];
    const std::int64_t peak = over_.most();
    if (more >= 0) return std::max(peak, over_.most(terms[0].begin, terms[0].end) + more);
    if (peak <= 0) return peak;
  }
  if (terms.empty()) return over_.most();
  hold(node, now, strategy);
  const std::int64_t result = over_.most();
  hold(node, strategy, now);
  return result;
}

bool SearchState::fits_after(std::uint32_t node, std::uint32_t strategy) {
  if (fits()) {
    const auto terms = space_->terms(node);
    const std::uint32_t now = choice_[node];
    if (std::all_of(terms.begin(), terms.end(), [&](const auto& term) { return term.bytes[strategy] <= term.bytes[now]; })) {
      return true;
    }
  }
  return bytes_over_after(node, strategy) <= 0;
}

void SearchState::move(std::uint32_t node, std::uint32_t strategy) {
  const std::uint32_t before = choice_[node];
  if (before == strategy) return;
  log_.emplace_back(node, before);
  cost_ += rise(node, strategy);
  hold(node, before, strategy);
  choice_[node] = strategy;
  for (const CompactSpace::Link& link : space_->links(node)) {
    const std::size_t domain = space_->domain(link.other);
    const double* less = link.by_own + before * domain;
    const double* more = link.by_own + strategy * domain;
    double* costs = costs_.data() + space_->offset(link.other);
    const double penalty = penalty_;
    for (std::size_t s = 0; s < domain; ++s) costs[s] += std::min(more[s], penalty) - std::min(less[s], penalty);
  }
}

}  // namespace meshwright
