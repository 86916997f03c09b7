#include "repair.h"

#include <algorithm>

namespace meshwright {

namespace {

struct Move {
  std::uint32_t node = 0;
  std::uint32_t strategy = 0;
  double merit = kNever;  // ticks per byte
};

// The priced change of bytes at all points but `peak`.
double priced_elsewhere(const CompactSpace& space, const Move& move, std::uint32_t now, std::size_t peak,
                        std::span<const double> before) {
  double sum = 0;
  for (const CompactSpace::Term& term : space.terms(move.node)) {
    double price = before[term.end] - before[term.begin];
    if (term.begin <= peak && peak < term.end) price -= before[peak + 1] - before[peak];
    sum += price * static_cast<double>(term.bytes[move.strategy] - term.bytes[now]);
  }
  return sum;
}

}  // namespace

bool repair(SearchState& state, std::span<const double> prices_before, std::int64_t most_work, std::int64_t& work) {
  const std::int64_t end = work + most_work;
  const CompactSpace& space = state.space();
  std::vector<Move> moves;
  while (work < end) {
    if (state.fits()) return true;
    const std::size_t peak = state.over().first_peak();
    const std::int64_t over = state.bytes_over();
    moves.clear();
    for (std::uint32_t node = 0; node < space.size(); ++node) {
      const auto terms = space.terms(node);
      work += 1 + static_cast<std::int64_t>(terms.size());
      const bool is_live = std::any_of(terms.begin(), terms.end(), [peak](const auto& term) { return term.begin <= peak && peak < term.end; });
      if (!is_live) continue;
      const std::uint32_t now = state.choice()[node];
      Move best;
      for (std::uint32_t s = 0; s < space.domain(node); ++s) {
        std::int64_t less = 0;
        for (const CompactSpace::Term& term : terms) {
          if (term.begin <= peak && peak < term.end) less += term.bytes[now] - term.bytes[s];
        }
        if (less <= 0) continue;
        Move move{node, s, 0};
        const double rise = state.rise(node, s) + priced_elsewhere(space, move, now, peak, prices_before);
        // What is saved is worth no more bytes than are over; a move that even lowers the cost goes first.
        move.merit = rise > 0 ? rise / static_cast<double>(std::min(less, over)) : rise;
        if (move.merit < best.merit) best = move;
      }
      work += static_cast<std::int64_t>(space.domain(node) * terms.size());
      if (best.merit < kNever) moves.push_back(best);
    }
    std::sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return std::pair(a.merit, a.node) < std::pair(b.merit, b.node); });
    bool found = false;
    for (const Move& move : moves) {
      work += 32 * static_cast<std::int64_t>(space.terms(move.node).size());
      if (state.bytes_over_after(move.node, move.strategy) > over) continue;  // it would only move the peak
      state.move(move.node, move.strategy);
      found = true;
      break;
    }
    if (!found) return false;
  }
  return state.fits();
}

void descend(SearchState& state, std::span<const std::uint32_t> nodes, std::int64_t& work) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::uint32_t node : nodes) {
      const auto costs = state.costs_of(node);
      work += static_cast<std::int64_t>(costs.size());
      const std::uint32_t now = state.choice()[node];
      std::uint32_t best = now;
      for (std::uint32_t s = 0; s < costs.size(); ++s) {
        if (costs[s] >= costs[best]) continue;
        work += 32 * static_cast<std::int64_t>(state.space().terms(node).size());
        if (state.fits_after(node, s)) best = s;
      }
      if (best == now) continue;
      state.move(node, best);
      changed = true;
    }
  }
}

}  // namespace meshwright
