#include "found_cut.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace meshwright {

namespace {

constexpr int kMostPrices = 4;         // of bytes, until something fits
constexpr int kSurePrices = 1;         // of those: behind them as long as each makes ways that hold less than so much of what they held
constexpr double kLess = 0.99;
constexpr double kPriceStep = 16;      // from one to the next
constexpr int kRoundsOfPrices = 2;     // of ways by what memory is worth in the cut that was found
constexpr double kShorterCut = 1e-3;   // by a round that another one follows

}  // namespace

FoundCut::FoundCut(JointLine* of, PipelineSchedule by, std::vector<std::int64_t> on, double hop, double most_bytes)
    : line(of), schedule(std::move(by)), devices(std::move(on)), loads(loads_by_position(schedule)), hop_seconds(hop), bytes(most_bytes) {}

Result<bool> FoundCut::settle() {
  std::optional<LineCut> fitting = cut_within(bytes);
  const double most_in_flight = std::ranges::max(loads, {}, &PositionLoad::in_flight).in_flight;
  const std::set<std::int64_t> numbers(devices.begin(), devices.end());
  double factor = 1, least_bytes = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kMostPrices && !fitting; ++i, factor *= kPriceStep) {
    double held = 0;
    for (const std::int64_t number : numbers) {
      if (Status status = line->add_priced_to_fastest(number, factor, most_in_flight); !status) return status.error();
      held += line->line().least_bytes(number, most_in_flight);
    }
    fitting = cut_within(bytes);
    if (i >= kSurePrices && held > kLess * least_bytes) break;
    least_bytes = held;
  }
  if (!fitting) {
    const Result<bool> more = add_far_meshes();
    if (!more) return more.error();
    if (*more) fitting = cut_within(bytes);
  }
  settled = true;
  refined = false;
  if (fitting) cut = std::move(*fitting);
  return fitting.has_value();
}

// True if there are any.
Result<bool> FoundCut::add_far_meshes() const {
  bool any = false;
  for (const std::int64_t number : std::set<std::int64_t>(devices.begin(), devices.end())) {
    const Result<bool> added = line->add_far_meshes(number);
    if (!added) return added.error();
    any = any || *added;
  }
  return any;
}

// True if there are new ones.
Result<bool> FoundCut::add_ways_by_prices() const {
  std::set<std::tuple<std::int64_t, double, double>> wanted;  // devices, prices and numbers in flight
  for (std::size_t position = 0; position < cut.stages.size(); ++position) {
    const bool is_asked = position == 0 || position + 1 == cut.stages.size() || position == cut.stages.size() / 2;
    if (is_asked && cut.stages[position].price > 0) wanted.emplace(devices[position], cut.stages[position].price, loads[position].in_flight);
  }
  bool any = false;
  for (const auto& [number, price, flying] : wanted) {
    const Result<bool> added = line->add_priced(number, price, flying);
    if (!added) return added.error();
    any = any || *added;
  }
  return any;
}

void FoundCut::cut_again() {
  std::optional<LineCut> better = cut_within(bytes);
  if (better && better->step_seconds < cut.step_seconds) cut = std::move(*better);
}

Status FoundCut::refine(double worth_seconds) {
  refined = true;
  cut_again();
  for (int round = 0; round < kRoundsOfPrices && cut.step_seconds < worth_seconds; ++round) {
    const Result<bool> added = add_ways_by_prices();
    if (!added) return added.error();
    if (!*added) break;
    const double before = cut.step_seconds;
    cut_again();
    if (cut.step_seconds > (1 - kShorterCut) * before) break;
  }
  cut = moved(std::move(cut));
  return Done{};
}

bool TriedSchedule::holds_no_more_than(const FoundCut& other) const {
  return shape == other.schedule.shape && positions == other.schedule.positions && std::ranges::equal(loads, other.loads, std::ranges::less_equal(), &PositionLoad::in_flight, &PositionLoad::in_flight);
}

}  // namespace meshwright
