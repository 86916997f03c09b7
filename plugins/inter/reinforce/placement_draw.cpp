#include "placement_draw.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

namespace meshwright {

namespace {

constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
constexpr double kFarthest = 4;  // of a feature

}  // namespace

PlacementDraw::PlacementDraw(const LoadProblem& problem) : problem_(problem), graph_(make_load_graph(problem)) {
  const auto most = static_cast<std::uint32_t>(pieces());
  accelerators_ = std::min(problem.accelerators, most);
  hosts_ = std::min(problem.hosts, most);
  slots_.resize(accelerators_ + hosts_);
  slots_of_.resize(graph_.values.size());
  before_.resize(pieces());
  for (const auto& [from, to] : graph_.edges) before_[to].push_back(from);
  find_order();
  for (const LoadPiece& piece : graph_.pieces) {
    work_ += piece.accelerator && accelerators_ > 0 ? piece.accelerator_seconds : piece.host_seconds;
    worst_load_ += std::max(piece.accelerator_seconds, piece.host_seconds);
  }
  for (const LoadValue& value : graph_.values) worst_load_ += value.seconds;
  even_load_ = work_ > 0 ? work_ / static_cast<double>(devices()) : worst_load_ > 0 ? worst_load_ : 1;
}

// Kahn's algorithm; of pieces that could be next, the one with the first node.
void PlacementDraw::find_order() {
  std::vector<std::vector<std::uint32_t>> behind(pieces());
  std::vector<std::size_t> waits(pieces(), 0);
  for (const auto& [from, to] : graph_.edges) {
    behind[from].push_back(to);
    ++waits[to];
  }
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t piece = 0; piece < pieces(); ++piece) {
    if (waits[piece] == 0) ready.push(piece);
  }
  is_line_ = true;
  while (!ready.empty()) {
    is_line_ = is_line_ && ready.size() == 1;  // only one order is possible
    const std::uint32_t piece = ready.top();
    ready.pop();
    order_.push_back(piece);
    for (const std::uint32_t next : behind[piece]) {
      if (--waits[next] == 0) ready.push(next);
    }
  }
}

std::string PlacementDraw::why_infeasible() const {
  if (hosts_ > 0) return "";  // one host can have all
  double bytes = 0;
  std::size_t filled = 1;  // accelerators, along the order
  double in_last = 0;
  const std::string room = std::to_string(problem_.accelerators) + " accelerators of " + std::to_string(static_cast<std::int64_t>(std::min(problem_.accelerator_bytes, 9e18))) + " bytes";
  for (const std::uint32_t id : order_) {
    const LoadPiece& piece = graph_.pieces[id];
    const std::string& name = problem_.nodes[piece.nodes.front()].name;
    if (!piece.accelerator) return "node '" + name + "' must be on a host, and there is none";
    if (piece.memory_bytes > problem_.accelerator_bytes) return room + ": node '" + name + "', with those of its group, is larger than one";
    bytes += piece.memory_bytes;
    if (in_last + piece.memory_bytes > problem_.accelerator_bytes) ++filled, in_last = 0;
    in_last += piece.memory_bytes;
  }
  if (bytes > problem_.accelerator_bytes * problem_.accelerators * (1 + 1e-9)) return room + " hold less than all nodes";
  if (is_line_ && filled > problem_.accelerators) return room + " hold no contiguous stages of all nodes, which need " + std::to_string(filled);
  return "";
}

void PlacementDraw::clear() {
  slot_of_.assign(pieces(), kNowhere);
  for (std::vector<std::uint32_t>& slots : slots_of_) slots.clear();
  for (Slot& slot : slots_) slot.seconds = slot.bytes = 0;
}

void PlacementDraw::draw_hosts(PlacementPolicy& policy, SplitMix& numbers) {
  std::uint32_t left[] = {accelerators_, hosts_};
  const PolicyOption kinds[] = {{0, {}}, {1, {}}};
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const bool open = left[0] > 0 && left[1] > 0;
    const std::size_t kind = open ? policy.choose(static_cast<std::uint32_t>(pieces()) + slot, kinds, numbers.unit()) : left[0] > 0 ? 0 : 1;
    slots_[slot].host = kind == 1;
    --left[kind];
  }
}

bool PlacementDraw::may_hold(std::uint32_t slot, std::uint32_t piece) const {
  const LoadPiece& what = graph_.pieces[piece];
  return slots_[slot].host || (what.accelerator && slots_[slot].bytes + what.memory_bytes <= problem_.accelerator_bytes);
}

std::uint32_t PlacementDraw::first_slot(std::uint32_t piece) const {
  std::uint32_t first = 0;
  for (const std::uint32_t earlier : before_[piece]) first = std::max(first, slot_of_[earlier]);
  return first;
}

std::uint32_t PlacementDraw::last_slot(std::uint32_t first, std::uint32_t piece) const {
  const auto last = static_cast<std::uint32_t>(slots_.size() - 1);
  if (!is_line_ || hosts_ > 0) return last;
  return piece == order_.front() ? 0 : std::min(first + 1, last);
}

double PlacementDraw::seconds_on(std::uint32_t slot, std::uint32_t piece) const {
  return slots_[slot].host ? graph_.pieces[piece].host_seconds : graph_.pieces[piece].accelerator_seconds;
}

// `before`: seconds of the pieces earlier in the order.
void PlacementDraw::find_options(std::uint32_t piece, double before) {
  found_.clear();
  const std::uint32_t first = first_slot(piece), last = last_slot(first, piece);
  const double place = work_ > 0 ? before / work_ * static_cast<double>(slots_.size()) : 0;  // where an even cut has it
  for (std::uint32_t slot = first; slot <= last; ++slot) {
    ++options_;
    if (!may_hold(slot, piece)) continue;
    double apart = 0;  // values that are touched elsewhere and not here
    for (const std::uint32_t value : graph_.pieces[piece].values) {
      const std::vector<std::uint32_t>& touching = slots_of_[value];
      if (!touching.empty() && std::ranges::find(touching, slot) == touching.end()) apart += graph_.values[value].seconds;
    }
    found_.push_back({slot,
                      {std::min((slots_[slot].seconds + seconds_on(slot, piece)) / even_load_, kFarthest), std::min(apart / even_load_, kFarthest), slot == first ? 1.0 : 0.0,
                       std::min(std::abs(static_cast<double>(slot) + 0.5 - place), kFarthest)}});
  }
}

void PlacementDraw::place(std::uint32_t piece, std::uint32_t slot) {
  slot_of_[piece] = slot;
  slots_[slot].seconds += seconds_on(slot, piece);
  if (!slots_[slot].host) slots_[slot].bytes += graph_.pieces[piece].memory_bytes;
  for (const std::uint32_t value : graph_.pieces[piece].values) {
    std::vector<std::uint32_t>& touching = slots_of_[value];
    if (std::ranges::find(touching, slot) == touching.end()) touching.push_back(slot);
  }
}

bool PlacementDraw::draw(PlacementPolicy& policy, SplitMix& numbers) {
  clear();
  draw_hosts(policy, numbers);
  double before = 0;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::uint32_t piece = order_[i];
    find_options(piece, before);
    if (found_.empty()) return repair(i);
    place(piece, found_[policy.choose(piece, found_, numbers.unit())].column);
    const LoadPiece& placed = graph_.pieces[piece];
    before += placed.accelerator && accelerators_ > 0 ? placed.accelerator_seconds : placed.host_seconds;
  }
  return true;
}

bool PlacementDraw::repair(std::size_t placed) {
  for (std::size_t undone = 1; undone < placed; undone *= 2) {
    if (place_rest(placed - undone)) return true;
  }
  if (place_rest(0)) return true;
  const auto host = std::ranges::find(slots_, true, &Slot::host);
  if (host == slots_.end()) return false;
  clear();
  for (const std::uint32_t piece : order_) place(piece, static_cast<std::uint32_t>(host - slots_.begin()));
  return true;
}

// The first `kept` pieces stay, all others go to the first device that may take them. False if there is none for one of them.
bool PlacementDraw::place_rest(std::size_t kept) {
  const std::vector<std::uint32_t> was = slot_of_;
  clear();
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::uint32_t piece = order_[i];
    std::uint32_t slot = i < kept ? was[piece] : first_slot(piece);
    while (i >= kept && slot < slots_.size() && !may_hold(slot, piece)) ++slot;
    if (slot >= slots_.size()) {
      slot_of_ = was;
      return false;
    }
    place(piece, slot);
  }
  return true;
}

double PlacementDraw::load() const {
  std::vector<double> loads;
  for (const Slot& slot : slots_) loads.push_back(slot.seconds);
  for (std::size_t value = 0; value < slots_of_.size(); ++value) {
    if (slots_of_[value].size() < 2) continue;
    for (const std::uint32_t slot : slots_of_[value]) loads[slot] += slots_[slot].host ? 0 : graph_.values[value].seconds;
  }
  return std::ranges::max(loads);
}

std::vector<PlacementStage> PlacementDraw::stages() const {
  std::vector<PlacementStage> all(slots_.size()), used;
  for (std::uint32_t piece = 0; piece < pieces(); ++piece) {
    std::vector<std::uint32_t>& nodes = all[slot_of_[piece]].nodes;
    nodes.insert(nodes.end(), graph_.pieces[piece].nodes.begin(), graph_.pieces[piece].nodes.end());
  }
  for (std::size_t slot = 0; slot < all.size(); ++slot) {
    if (all[slot].nodes.empty()) continue;
    std::ranges::sort(all[slot].nodes);
    all[slot].host = slots_[slot].host;
    used.push_back(std::move(all[slot]));
  }
  return used;
}

}  // namespace meshwright
