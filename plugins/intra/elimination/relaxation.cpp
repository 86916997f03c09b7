#include "relaxation.h"

#include <algorithm>

namespace meshwright::elimination {

namespace {

constexpr int kMostSecants = 40;
constexpr int kMostRounds = 3;  // of all multipliers in turn

TickSum shifted_down(TickSum value) { return value >> kMultiplierBits; }  // arithmetic: rounds towards minus infinity

}  // namespace

TickSum priced(const Multipliers& multipliers, std::span<const std::int64_t> bytes) {
  TickSum sum = 0;
  for (std::size_t k = 0; k < multipliers.size(); ++k) sum += TickSum{multipliers[k]} * bytes[k];
  return shifted_down(sum);
}

Relaxation::Relaxation(Passes& passes, const StrategySpace& space, std::span<const MemoryPoint> points,
                       std::vector<std::int64_t> room, std::span<const std::vector<std::uint32_t>> least_choices,
                       std::function<void(const std::vector<std::uint32_t>&)> seen)
    : passes_(passes),
      space_(space),
      points_(points),
      room_(std::move(room)),
      least_choices_(least_choices),
      seen_(std::move(seen)) {}

Unaries Relaxation::priced_unaries(const Multipliers& multipliers) const {
  Unaries unary = passes_.problem().unary;
  for (std::size_t v = 0; v < unary.size(); ++v) {
    for (std::size_t s = 0; s < unary[v].size(); ++s) {
      if (unary[v][s] >= kForbidden) continue;
      TickSum share = 0;
      for (std::size_t k = 0; k < points_.size(); ++k) {
        if (!points_[k].bytes[v].empty()) share += TickSum{multipliers[k]} * points_[k].bytes[v][s];
      }
      unary[v][s] += static_cast<Ticks>(shifted_down(share));
    }
  }
  return unary;
}

bool Relaxation::fits(const Multipliers& multipliers) const {
  TickSum total = 0;
  for (std::size_t k = 0; k < points_.size(); ++k) {
    TickSum most = 0;
    for (const auto& bytes : points_[k].bytes) {
      if (!bytes.empty()) most += *std::max_element(bytes.begin(), bytes.end());
    }
    // Bytes are below 2^62 and multipliers below 2^63: the product fits.
    total += shifted_down(most * multipliers[k]);
    if (total >= kForbidden / 2) return false;
  }
  return true;
}

std::optional<Forward> Relaxation::forward(const Multipliers& multipliers) {
  return passes_.forward(priced_unaries(multipliers), false);
}

void Relaxation::know(const Forward& unpriced) {
  const Multipliers none(points_.size(), 0);
  known_[none] = {none, unpriced.value, unpriced.choice};
  seen_(unpriced.choice);
}

std::optional<Relaxed> Relaxation::evaluate(Multipliers multipliers) {
  while (!fits(multipliers)) {
    for (std::int64_t& multiplier : multipliers) multiplier /= 2;
  }
  if (const auto known = known_.find(multipliers); known != known_.end()) return known->second;
  auto pass = forward(multipliers);
  if (!pass || !pass->allowed) return std::nullopt;
  Relaxed result;
  result.bound = pass->value - priced(multipliers, room_);
  result.multipliers = std::move(multipliers);
  result.choice = std::move(pass->choice);
  seen_(result.choice);
  known_[result.multipliers] = result;
  return result;
}

std::int64_t Relaxation::bytes_of(std::size_t point, const std::vector<std::uint32_t>& choice) const {
  std::int64_t sum = 0;
  for (std::size_t v = 0; v < choice.size(); ++v) {
    if (!points_[point].bytes[v].empty()) sum += points_[point].bytes[v][choice[v]];
  }
  return sum;
}

Relaxation::Line Relaxation::line_of(std::size_t point, const Multipliers& multipliers,
                                     const std::vector<std::uint32_t>& choice) const {
  Line line;
  line.at = meshwright::evaluate(space_, choice).cost << kMultiplierBits;
  for (std::size_t k = 0; k < points_.size(); ++k) {
    const TickSum over = TickSum{bytes_of(k, choice)} - room_[k];
    if (k == point) {
      line.slope = over;
    } else {
      line.at += multipliers[k] * over;
    }
  }
  return line;
}

// False if the meter is exhausted.
bool Relaxation::maximize_along(std::size_t point, Relaxed& best) {
  Multipliers at = best.multipliers;
  at[point] = 0;
  auto start = evaluate(at);
  if (!start) return false;
  if (start->bound > best.bound) best = *start;
  Line over = line_of(point, at, start->choice);
  if (over.slope <= 0) return true;
  Line within = line_of(point, at, least_choices_[point]);
  for (int i = 0; i < kMostSecants; ++i) {
    if (within.at <= over.at || over.slope <= within.slope) break;
    const TickSum multiplier = (within.at - over.at) / (over.slope - within.slope);
    if (multiplier >= std::numeric_limits<std::int64_t>::max()) break;
    at[point] = static_cast<std::int64_t>(multiplier);
    auto next = evaluate(at);
    if (!next) return false;
    if (next->bound > best.bound) best = *next;
    const Line line = line_of(point, at, next->choice);
    const bool on_a_known_line =
        (line.at == over.at && line.slope == over.slope) || (line.at == within.at && line.slope == within.slope);
    if (on_a_known_line || next->multipliers != at) break;
    (line.slope > 0 ? over : within) = line;
    if (line.slope == 0) break;
  }
  return true;
}

std::optional<Relaxed> Relaxation::maximize(Multipliers start) {
  start.resize(points_.size(), 0);
  auto best = evaluate(start);
  if (!best) return std::nullopt;
  const int rounds = points_.size() == 1 ? 1 : kMostRounds;
  for (int round = 0; round < rounds; ++round) {
    const TickSum before = best->bound;
    for (std::size_t point = points_.size(); point-- > 0;) {  // the newest first
      if (!maximize_along(point, *best)) return best;
    }
    if (round > 0 && best->bound == before) break;
  }
  return best;
}

}  // namespace meshwright::elimination
