#include "load_search.h"

#include <algorithm>

namespace meshwright {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kRoundOff = 1e-9;  // relative, of sums in different orders: what it decides stays in the search

}  // namespace

LoadSearch::LoadSearch(const LoadGraph& graph, const Downsets& downsets, const LoadDevices& devices)
    : graph_(graph), downsets_(downsets), devices_(devices) {
  // A host replaces accelerator seconds at the rate of the piece that it is best at. What it does for nothing is no
  // work for an accelerator.
  std::vector<double> work;
  double total = 0, largest = 0;
  for (const LoadPiece& piece : graph.pieces) {
    const bool free = devices.hosts > 0 && piece.host_seconds == 0;
    work.push_back(free || !piece.accelerator ? 0 : piece.accelerator_seconds);
    if (!free && work.back() > 0) host_rate_ = std::max(host_rate_, work.back() / piece.host_seconds);
    total += work.back();
    const double by_host = devices.hosts > 0 ? piece.host_seconds : kInfinite;
    largest = std::max(largest, std::min(by_host, piece.accelerator ? piece.accelerator_seconds : kInfinite));
  }
  if (devices.hosts == 0) host_rate_ = 0;
  lower_bound_ = std::max(largest, total / (devices.accelerators + devices.hosts * host_rate_));
  seconds_.assign(downsets.size(), 0);
  for (std::uint32_t set = 1; set < downsets.size(); ++set) {
    const Downsets::Growth& from = downsets.reached_from[set];
    seconds_[set] = seconds_[from.bigger] + work[from.node];
  }
}

// Whether what is left behind `set` fits the devices that are left, each loaded up to the bound.
bool LoadSearch::may_finish(std::uint32_t set, std::uint32_t accelerators, std::uint32_t hosts) const {
  const double left = seconds_.back() - seconds_[set];
  const double rate = devices_.accelerators - accelerators + (devices_.hosts - hosts) * host_rate_;
  const double room = rate > 0 ? rate * bound_ : 0;  // the bound may be infinite
  return left <= room + kRoundOff * seconds_.back();
}

bool LoadSearch::has_states(std::uint32_t set) const {
  const auto first = best_.begin() + static_cast<std::ptrdiff_t>(set * cells());
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(cells()), [](double load) { return load < kInfinite; });
}

LoadStages LoadSearch::best_below(double bound, std::uint64_t& steps, std::uint64_t most_steps) {
  bound_ = bound;
  best_.assign(downsets_.size() * cells(), kInfinite);
  arrivals_.assign(best_.size(), {});
  seen_.assign(downsets_.size(), 0);
  best_[0] = 0;
  const auto whole = static_cast<std::uint32_t>(downsets_.size() - 1);
  for (std::uint32_t set = 0; set < whole; ++set) {
    if (!has_states(set)) continue;
    touched_.assign(graph_.values.size(), 0);
    earlier_.assign(graph_.values.size(), false);
    for (const std::uint32_t piece : downsets_.nodes_of(set)) {
      for (const std::uint32_t value : graph_.pieces[piece].values) earlier_[value] = true;
    }
    before_ = set;
    accelerator_seconds_ = host_seconds_ = bytes_ = crossing_ = behind_ = 0;
    host_only_ = 0;
    grow(set, steps);
    if (steps > most_steps) return {};
  }
  return trace();
}

void LoadSearch::add_piece(std::uint32_t piece) {
  const LoadPiece& added = graph_.pieces[piece];
  accelerator_seconds_ += added.accelerator_seconds;
  host_seconds_ += added.host_seconds;
  bytes_ += added.memory_bytes;
  host_only_ += added.accelerator ? 0 : 1;
  for (const std::uint32_t id : added.values) {
    const LoadValue& value = graph_.values[id];
    const std::uint32_t now = ++touched_[id];
    if (now == 1) {
      crossing_ += value.seconds;
      if (earlier_[id]) behind_ += value.seconds;
    }
    if (now == value.pieces.size()) crossing_ -= value.seconds;
  }
}

void LoadSearch::drop_piece(std::uint32_t piece) {
  for (const std::uint32_t id : graph_.pieces[piece].values) --touched_[id];
}

// Depth first over the downsets that hold `set`, each once. A downset that is too much for an accelerator and for a
// host is not looked beyond, since what is counted of it here only grows. (What values cost may shrink again where
// their last reader comes in.)
void LoadSearch::grow(std::uint32_t set, std::uint64_t& steps) {
  for (const Downsets::Growth& growth : downsets_.grown(set)) {
    ++steps;
    if (seen_[growth.bigger] == before_ + 1) continue;
    const double accelerator_seconds = accelerator_seconds_, host_seconds = host_seconds_, bytes = bytes_;
    const double crossing = crossing_, behind = behind_;
    const std::uint32_t host_only = host_only_;
    add_piece(growth.node);
    const bool accelerator = devices_.accelerators > 0 && host_only_ == 0 && bytes_ <= devices_.accelerator_bytes &&
                             accelerator_seconds_ + behind_ < bound_ * (1 + kRoundOff);
    const bool host = devices_.hosts > 0 && host_seconds_ < bound_;
    if (accelerator || host) {
      seen_[growth.bigger] = before_ + 1;
      arrive(growth.bigger);
      grow(growth.bigger, steps);
    }
    drop_piece(growth.node);
    accelerator_seconds_ = accelerator_seconds;
    host_seconds_ = host_seconds;
    bytes_ = bytes;
    crossing_ = crossing;
    behind_ = behind;
    host_only_ = host_only;
  }
}

void LoadSearch::arrive(std::uint32_t set) {
  const bool fits = host_only_ == 0 && bytes_ <= devices_.accelerator_bytes;
  const double accelerator_load = fits ? accelerator_seconds_ + crossing_ : kInfinite;
  if (accelerator_load >= bound_ && host_seconds_ >= bound_) return;
  const double* from = &best_[before_ * cells()];
  double* to = &best_[set * cells()];
  Arrival* arrivals = &arrivals_[set * cells()];
  const auto offer = [&](std::size_t next, double load, bool host) {
    if (load >= to[next]) return;
    to[next] = load;
    arrivals[next] = {before_, host};
  };
  for (std::uint32_t hosts = 0; hosts <= devices_.hosts; ++hosts) {
    for (std::uint32_t accelerators = 0; accelerators <= devices_.accelerators; ++accelerators) {
      const double load = from[cell(accelerators, hosts)];
      if (load == kInfinite) continue;
      if (accelerator_load < bound_ && accelerators < devices_.accelerators && may_finish(set, accelerators + 1, hosts)) {
        offer(cell(accelerators + 1, hosts), std::max(load, accelerator_load), false);
      }
      if (host_seconds_ < bound_ && hosts < devices_.hosts && may_finish(set, accelerators, hosts + 1)) {
        offer(cell(accelerators, hosts + 1), std::max(load, host_seconds_), true);
      }
    }
  }
}

LoadStages LoadSearch::trace() const {
  LoadStages result;
  auto set = static_cast<std::uint32_t>(downsets_.size() - 1);
  const double* last = &best_[set * cells()];
  auto at = static_cast<std::size_t>(std::min_element(last, last + cells()) - last);
  result.load = last[at];
  if (result.load == kInfinite) return result;
  while (set != 0) {
    const Arrival& arrival = arrivals_[set * cells() + at];
    result.stages.push_back({arrival.before, set, arrival.host});
    at -= arrival.host ? cell(0, 1) : 1;
    set = arrival.before;
  }
  std::reverse(result.stages.begin(), result.stages.end());
  return result;
}

}  // namespace meshwright
