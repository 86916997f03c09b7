#include "stage.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

namespace meshwright {

namespace {

// Work is in times of the space's size, the entries and strategies that one look at everything takes.
constexpr int kStepsPerRound = 50, kFewestSteps = 4;  // of the ascent; as much work goes to the search
constexpr std::int64_t kWorkPerStep = 4;
constexpr std::int64_t kAfterProbe = 20;      // the search's, from what a probe points to
constexpr std::int64_t kWorkPerLook = 4;      // at the clock
constexpr double kGain = 1e-3;                // of the gap; less in a round is idle
constexpr double kDearer[] = {1.05, 1.25, 2, 4, 16, 256, 65536};
constexpr int kSweepsPerPrice = 3;
constexpr int kExcludingSweeps = 5;
constexpr std::int64_t kRoundsPerProbing = 4;
constexpr std::int64_t kRoundsBeforeDives = 6;  // even where searches gain
constexpr std::size_t kMostKept = 6;          // choices for recombining
constexpr double kLevel = 0.01;               // of the gap; the ascent gained less in a round
constexpr int kSettlingSweeps = 20;           // before probing
// Branches begin when probing has had as many rounds and the ascent gained less than a share of the gap in its last ones.
constexpr std::int64_t kProbesBefore = 3;
constexpr std::size_t kRoundsToCompare = 8;
constexpr double kSlow = 0.05;
// Work of the first tree, and of each after it, in times of all other work meanwhile: each is several times larger.
constexpr double kFirstTree = 5;
constexpr double kLaterTrees = 0.5;
constexpr double kNearer = 0.4;               // of the gap, from the bound to their goal

}  // namespace

Stage::Stage(const CompactSpace& space, const PointPrices& prices, MessagePassing messages, std::uint64_t seed, std::int64_t most_work, bool two_threads,
             const std::function<bool()>& is_late)
    : space_(space),
      size_(space.entries() + static_cast<std::int64_t>(space.strategies())),
      steps_(static_cast<int>(std::clamp<std::int64_t>(most_work / (2 * kWorkPerStep * size_), kFewestSteps, kStepsPerRound))),
      two_threads_(two_threads),
      is_late_(is_late),
      ascent_(space, prices, std::move(messages)),
      search_(space, 2 * seed),
      other_(space, 2 * seed + 1),
      probing_(space),
      diving_(space, 2 * seed) {}

void Stage::round(double upper, double target) {
  if (branches_are_due(upper)) return branch(upper);
  prices_ = ascent_.prices();
  pointed_to_ = ascent_.choice();
  const double before = std::min(search_.current_cost(), other_.current_cost());
  const double noise = std::max(1.0, target - ascent_.bound());
  const std::int64_t work = steps_ * kWorkPerStep * size_;
  if (upper < kNever) ascent_.set_most_cost(upper);
  if (changing_probed_out_) ascent_.start_over();
  changing_probed_out_ = false;
  const bool level = level_ || ascent_.has_converged();
  const bool climbing = !ascent_.has_converged() && !(level && rounds_ % 2 == 1);
  const bool probing = level && rounds_ % kRoundsPerProbing == 1 && search_.has_choice();
  if (search_.current_cost() == kNever && other_.current_cost() == kNever && rounds_ > 0) look_for_room();
  dives_ = false;
  if (idle_ || search_.current_cost() == kNever || (rounds_ >= kRoundsBeforeDives && rounds_ % 2 == 0)) {
    restart();
  } else {
    search_.offer(pointed_to_, prices_);
  }

  known_ = best_search().choice();
  known_cost_ = best_search().cost();

  // The ascent goes on meanwhile.
  const std::optional<PriceAscent> ascent_at_start = dives_ && !probing ? std::optional(ascent_) : std::nullopt;
  const auto first = [&] {
    if (climbing) {
      climb(target);
    } else {
      search(other_, work, noise);
    }
  };
  const auto second = [&] {
    if (probing) {
      probe(upper);
    } else if (climbing && rounds_ % 2 == 1 && other_.has_choice()) {
      search(other_, work, noise);
    } else {
      if (ascent_at_start) search_.start_from(diving_.dive(*ascent_at_start, is_late_), prices_);
      search(search_, work, noise);
    }
  };
  if (two_threads_) {
    std::thread thread(first);
    second();
    thread.join();
  } else {
    first();
    second();
  }
  share_best();
  if (ascent_at_start) recombine();
  const double after = std::min(search_.current_cost(), other_.current_cost());
  idle_ = !(before - after > kGain * (after - ascent_.bound()));
  ++rounds_;
}

void Stage::climb(double target) {
  const double before = ascent_.bound();
  for (int step = 0; step < steps_ && !ascent_.has_converged() && ascent_.bound() < kNever && !is_late_(); ++step) ascent_.step(target);
  level_ = ascent_.bound() - before < kLevel * (target - before);
  climbed_.push_back(ascent_.bound());
}

// As long as their work is not more than their share.
bool Stage::branches_are_due(double upper) const {
  if (upper == kNever || std::floor(upper) - bound() < 1) return false;
  if (branching_) {
    const double share = felled_work_ == 0 ? kFirstTree : kLaterTrees;
    return !branching_->is_full() && static_cast<double>(branching_->work()) < share * static_cast<double>(plain_work() - plain_before_);
  }
  if (probing_rounds_ < kProbesBefore) return false;
  if (ascent_.has_converged()) return true;
  if (climbed_.size() <= kRoundsToCompare) return false;
  const double before = climbed_[climbed_.size() - 1 - kRoundsToCompare];
  return ascent_.bound() - before < kSlow * (upper - before);
}

// A tree that reached its goal gives way to one with the next.
void Stage::branch(double upper) {
  if (branching_ && branching_->is_done()) {
    felled_work_ = branched_work();
    branching_.reset();
  }
  if (!branching_) {
    plain_before_ = plain_work();
    const double goal = std::floor(bound() + kNearer * (upper - bound()));
    branching_.emplace(space_, ascent_, std::min(goal, upper - 1));
  }
  branching_->grow(two_threads_, is_late_);
  branched_bound_ = std::max(branched_bound_, branching_->bound());
  if (branching_->cost() < cost()) search_.start_from(branching_->choice(), ascent_.prices());
}

void Stage::search(NeighbourhoodSearch& search, std::int64_t work, double noise) const {
  const std::int64_t look = kWorkPerLook * size_;
  for (std::int64_t done = 0; done < work && !is_late_(); done += look) search.run(prices_, look, noise);
}

void Stage::probe(double upper) {
  const std::int64_t end = probing_.work() + search_.work() + steps_ * kWorkPerStep * size_;
  ascent_.settle(kSettlingSweeps);
  if (probes_ == 0) probing_.sort(ascent_);
  ++probes_;
  ++probing_rounds_;
  while (probing_.work() + search_.work() < end && !is_late_()) {
    const std::vector<std::uint32_t>& best = search_.cost() < known_cost_ ? search_.choice() : known_;
    const Probing::Outcome outcome = probing_.probe(ascent_, upper, best);
    if (outcome.excluded) ++probed_out_;
    if (outcome.excluded && outcome.changing) {
      changing_probed_out_ = true;
      probes_ = 0;  // others may change after that
    }
    if (outcome.choice.empty()) continue;
    search_.start_from(outcome.choice, prices_);
    search(search_, kAfterProbe * size_, std::max(1.0, upper - ascent_.bound()));
  }
}

// Both searches know the best; the one that has it goes on from where it is.
void Stage::share_best() {
  if (!best_search().has_choice()) return;
  NeighbourhoodSearch& behind = other_.cost() < search_.cost() ? search_ : other_;
  if (behind.current_cost() == kNever) behind.start_from(best_search().choice(), prices_);
}

// Where a dive came to, and the choices of the dives before: the other search goes on from the best that they make together.
void Stage::recombine() {
  if (search_.current_cost() == kNever) return;
  kept_.push_back(search_.current());
  if (kept_.size() > kMostKept) kept_.erase(kept_.begin());
  if (search_.cost() < other_.cost()) other_.start_from(search_.choice(), prices_);
  other_.recombine(kept_, prices_);
}

// From what the messages point to, from a dive, or from the best.
void Stage::restart() {
  const std::int64_t turn = rounds_ % kRoundsPerProbing;
  if (search_.current_cost() == kNever) {
    search_.start_from(pointed_to_, prices_);
  } else if (turn % 2 == 0) {
    dives_ = true;
  } else if (turn == kRoundsPerProbing - 1 && best_search().has_choice()) {
    search_.start_from(best_search().choice(), prices_);
    other_.start_from(best_search().choice(), prices_);
  }
}

// While no choice fits: what the messages point to when memory is dearer.
void Stage::look_for_room() {
  MessagePassing messages = ascent_.messages();
  const PointPrices& prices = ascent_.prices();
  if (prices.empty()) return;
  const std::int64_t least = std::max<std::int64_t>(1, *std::max_element(prices.begin(), prices.end()) / 1000);
  for (const double factor : kDearer) {
    PointPrices dearer;
    for (const std::int64_t price : prices) {
      dearer.push_back(static_cast<std::int64_t>(std::min(factor * static_cast<double>(price + least), 1e18)));
    }
    if (is_late_() || !messages.set_prices(dearer)) return;
    for (int i = 0; i < kSweepsPerPrice; ++i) messages.sweep();
    if (search_.start_from(messages.choice(), dearer)) return;
  }
}

void Stage::exclude_above(double cost) {
  probed_out_ = 0;
  ascent_.exclude_above(cost, kExcludingSweeps);
}

}  // namespace meshwright
