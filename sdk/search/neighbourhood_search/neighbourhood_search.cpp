#include "neighbourhood_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "repair.h"

namespace meshwright {

namespace {

constexpr std::size_t kSmallest = 4;   // nodes of a window; each kind has four times as many as the one before
constexpr int kMostRounds = 12;
constexpr std::size_t kSmallestWidth = 16;  // nodes of a window of small width, likewise,
constexpr std::size_t kLargestWidth = 512;  // up to this many
constexpr double kWidthEntries = 10'000;    // of its tables
constexpr int kWidthRounds = 8;
constexpr double kRecombineEntries = 100'000;
constexpr int kRecombineRounds = 60;
constexpr int kMostRecombined = 3;  // times
// What a repair may look at, in times of the space's size.
constexpr std::int64_t kRepairStart = 100;
constexpr std::int64_t kRepairWindow = 2;
constexpr double kMemory = 0.9;        // of what a kind of window gained
constexpr std::int64_t kIdle = 20;     // work without a gain after which kicks begin, in times of the space's size
constexpr std::int64_t kAfterKick = 50;  // work after a kick, in times of the kick's

}  // namespace

NeighbourhoodSearch::NeighbourhoodSearch(const CompactSpace& space, std::uint64_t seed)
    : space_(space), random_(seed), window_(space), width_(space), seen_(space.size(), 0) {
  for (std::uint32_t node = 0; node < space.size(); ++node) {
    if (!space.terms(node).empty()) with_memory_.push_back(node);
  }
  for (std::size_t count = kSmallest;; count *= 4) {
    kinds_.push_back({false, std::min(count, space.size())});
    if (!with_memory_.empty()) kinds_.push_back({true, std::min(count, space.size())});
    if (count >= space.size()) break;
  }
  for (std::size_t count = kSmallestWidth; count < std::min(space.size(), 2 * kLargestWidth); count *= 4) {
    kinds_.push_back({false, count, false});
    if (!with_memory_.empty()) kinds_.push_back({true, count, false});
  }
}

void NeighbourhoodSearch::set_prices(const PointPrices& prices) {
  prices_.clear();
  prices_before_.assign(1, 0);
  for (const std::int64_t price : prices) {
    prices_.push_back(std::ldexp(static_cast<double>(price), -kPriceBits));
    prices_before_.push_back(prices_before_.back() + prices_.back());
  }
}

bool NeighbourhoodSearch::start_from(const std::vector<std::uint32_t>& choice, const PointPrices& prices) {
  return adopt(choice, prices, kNever);
}

bool NeighbourhoodSearch::offer(const std::vector<std::uint32_t>& choice, const PointPrices& prices) {
  return adopt(choice, prices, current_cost());
}

bool NeighbourhoodSearch::adopt(const std::vector<std::uint32_t>& choice, const PointPrices& prices, double below) {
  set_prices(prices);
  SearchState state(space_, choice);
  work_ += size();
  if (!repair(state, prices_before_, kRepairStart * size(), work_)) return false;
  std::vector<std::uint32_t> all(space_.size());
  std::iota(all.begin(), all.end(), 0U);
  descend(state, all, work_);
  state.recount();
  // Nodes that are in forbidden pairs, with what is around them.
  for (int round = 0; round < 8 && !state.is_allowed(); ++round) {
    for (const std::uint32_t node : all) {
      if (state.costs_of(node)[state.choice()[node]] < state.penalty()) continue;
      const std::size_t size = std::size_t{8} << round;
      std::vector<std::uint32_t> nodes = {node};
      ++balls_;
      seen_[node] = balls_;
      for (std::size_t next = 0; next < nodes.size() && nodes.size() < size; ++next) {
        for (const CompactSpace::Link& link : space_.links(nodes[next])) {
          if (seen_[link.other] == balls_) continue;
          seen_[link.other] = balls_;
          nodes.push_back(link.other);
        }
      }
      window_.set_nodes(nodes);
      if (window_.improve(state, prices_, kMostRounds) != WindowOutcome::better) continue;
      for (std::size_t i = 0; i < window_.nodes().size(); ++i) state.move(window_.nodes()[i], window_.solution()[i]);
    }
    state.recount();
  }
  if (!state.is_allowed() || state.cost() >= below) return false;
  state.forget_log();
  state_ = std::move(state);
  kicked_.clear();
  idle_ = 0;
  keep_best();
  return true;
}

void NeighbourhoodSearch::keep_best() {
  if (state_->cost() >= best_cost_) return;
  best_ = state_->choice();
  best_cost_ = state_->cost();
}

void NeighbourhoodSearch::run(const PointPrices& prices, std::int64_t work, double noise) {
  if (!state_) return;
  set_prices(prices);
  const std::int64_t end = this->work() + work;
  // As long as windows help now and then, there are no kicks.
  while (this->work() < end) {
    if (idle_ < kIdle * size()) {
      improve(1);
      state_->forget_log();
      continue;
    }
    const double cost = state_->cost();
    const std::int64_t before = this->work();
    state_->forget_log();
    if (kick(noise)) improve(kAfterKick * std::max<std::int64_t>(this->work() - before, 1));
    kicked_.clear();
    if (state_->cost() > cost) state_->go_back(0);
    state_->forget_log();
  }
}

// Windows, until they looked at as much.
void NeighbourhoodSearch::improve(std::int64_t work) {
  const std::int64_t end = this->work() + work;
  while (this->work() < end) {
    Kind& kind = pick_kind();
    const double cost = state_->cost();
    const std::int64_t before = this->work();
    try_window(kind);
    const auto spent = static_cast<double>(this->work() - before);
    kind.gained = kMemory * kind.gained + (cost - state_->cost());
    kind.spent = kMemory * kind.spent + spent;
    idle_ = state_->cost() < cost ? 0 : idle_ + static_cast<std::int64_t>(spent);
    keep_best();
  }
}

// Re-solves a few nodes with noise.
bool NeighbourhoodSearch::kick(double noise) {
  ++work_;
  const std::size_t count = kSmallest << draw(4);
  std::vector<std::uint32_t> nodes = draw(2) == 0 || with_memory_.empty() ? ball(count) : live_together(count);
  const double scale = noise * std::pow(10.0, -3.0 * static_cast<double>(draw(1024)) / 1024.0);
  noise_.resize(space_.strategies());
  for (const std::uint32_t node : nodes) {
    for (std::uint32_t s = 0; s < space_.domain(node); ++s) {
      noise_[space_.offset(node) + s] = std::floor(scale * static_cast<double>(draw(1024)) / 1024.0);
    }
  }
  shuffle(nodes);
  window_.set_nodes(nodes);
  const WindowOutcome outcome = window_.improve(*state_, prices_, 1, noise_);
  using enum WindowOutcome;
  if (outcome == none || outcome == open) return false;
  for (std::size_t i = 0; i < window_.nodes().size(); ++i) state_->move(window_.nodes()[i], window_.solution()[i]);
  if (outcome == over && !repair(*state_, prices_before_, kRepairWindow * size(), work_)) {
    state_->go_back(0);
    return false;
  }
  kicked_ = nodes;
  return true;
}

// The kind that gains most for its work, but for every fourth draw.
NeighbourhoodSearch::Kind& NeighbourhoodSearch::pick_kind() {
  if (draw(4) == 0) return kinds_[draw(kinds_.size())];
  double sum = 0;
  for (const Kind& kind : kinds_) sum += kind.gained / kind.spent;
  if (sum <= 0) return kinds_[draw(kinds_.size())];
  double at = static_cast<double>(draw(1U << 20)) / (1U << 20) * sum;
  for (Kind& kind : kinds_) {
    at -= kind.gained / kind.spent;
    if (at < 0) return kind;
  }
  return kinds_.back();
}

void NeighbourhoodSearch::shuffle(std::vector<std::uint32_t>& nodes) {
  for (std::size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[draw(i)]);
}

std::vector<std::uint32_t> NeighbourhoodSearch::ball(std::size_t size) {
  const bool near = !kicked_.empty() && draw(2) == 0;
  std::vector<std::uint32_t> nodes = {near ? kicked_[draw(kicked_.size())]
                                           : static_cast<std::uint32_t>(draw(space_.size()))};
  ++balls_;
  seen_[nodes[0]] = balls_;
  for (std::size_t next = 0; next < nodes.size() && nodes.size() < size; ++next) {
    const auto links = space_.links(nodes[next]);
    const std::size_t first = links.empty() ? 0 : draw(links.size());  // a hub's neighbours take turns
    for (std::size_t i = 0; i < links.size() && nodes.size() < size; ++i) {
      const std::uint32_t other = links[(first + i) % links.size()].other;
      if (seen_[other] == balls_) continue;
      seen_[other] = balls_;
      nodes.push_back(other);
    }
    work_ += static_cast<std::int64_t>(links.size());
  }
  return nodes;
}

std::vector<std::uint32_t> NeighbourhoodSearch::live_together(std::size_t size) {
  const auto point = static_cast<std::uint32_t>(draw(space_.rooms().size()));
  std::vector<std::uint32_t> nodes;
  for (const std::uint32_t node : with_memory_) {
    const auto terms = space_.terms(node);
    if (std::any_of(terms.begin(), terms.end(), [point](const auto& term) { return term.begin <= point && point < term.end; })) {
      nodes.push_back(node);
    }
    work_ += 1 + static_cast<std::int64_t>(terms.size());
  }
  shuffle(nodes);
  if (nodes.size() > size) nodes.resize(size);
  return nodes;
}

// Whether it changed anything.
bool NeighbourhoodSearch::try_window(const Kind& kind) {
  ++work_;
  std::vector<std::uint32_t> nodes;
  if (kind.size == space_.size()) {
    nodes.resize(space_.size());
    std::iota(nodes.begin(), nodes.end(), 0U);
  } else {
    nodes = kind.by_time ? live_together(kind.size) : ball(kind.size);
  }
  shuffle(nodes);
  if (kind.is_forest) {
    window_.set_nodes(nodes);
    const WindowOutcome outcome = window_.improve(*state_, prices_, kMostRounds);
    return accept(window_.nodes(), window_.solution(), outcome);
  }
  width_.set_nodes(nodes, {}, kWidthEntries);
  const WindowOutcome outcome = width_.improve(*state_, prices_, kWidthRounds);
  return accept(width_.nodes(), width_.solution(), outcome);
}

// Whether the solution of a window, repaired, costs no more.
bool NeighbourhoodSearch::accept(std::span<const std::uint32_t> nodes, std::span<const std::uint32_t> solution, WindowOutcome outcome) {
  using enum WindowOutcome;
  if (outcome == none || outcome == open) return false;
  const std::size_t mark = state_->mark();
  const double cost = state_->cost();
  for (std::size_t i = 0; i < nodes.size(); ++i) state_->move(nodes[i], solution[i]);
  if (outcome == over && !repair(*state_, prices_before_, kRepairWindow * size(), work_)) {
    state_->go_back(mark);
    return false;
  }
  descend(*state_, nodes, work_);
  if (state_->cost() <= cost) return true;
  state_->go_back(mark);
  return false;
}

void NeighbourhoodSearch::recombine(const std::vector<std::vector<std::uint32_t>>& others, const PointPrices& prices) {
  if (!state_) return;
  set_prices(prices);
  for (int time = 0; time < kMostRecombined; ++time) {
    std::vector<std::uint32_t> nodes;
    std::vector<std::vector<std::uint32_t>> candidates;
    for (std::uint32_t node = 0; node < space_.size(); ++node) {
      std::vector<std::uint32_t> own = {state_->choice()[node]};
      for (const auto& other : others) own.push_back(other[node]);
      std::sort(own.begin(), own.end());
      own.erase(std::unique(own.begin(), own.end()), own.end());
      if (own.size() == 1) continue;
      nodes.push_back(node);
      candidates.push_back(std::move(own));
    }
    work_ += static_cast<std::int64_t>(space_.size() * (1 + others.size()));
    if (nodes.empty()) return;
    const double cost = state_->cost();
    width_.set_nodes(nodes, candidates, kRecombineEntries);
    const WindowOutcome outcome = width_.improve(*state_, prices_, kRecombineRounds);
    accept(width_.nodes(), width_.solution(), outcome);
    state_->forget_log();
    keep_best();
    if (state_->cost() >= cost) return;
  }
}

}  // namespace meshwright
