// What is done with one CompactSpace until it is exchanged for a smaller one: the bound's ascent, two searches and
// probing, in rounds, and where the ascent gains little any more, branches. Two things are done in a round, and neither sees what the other finds before the round ends: so
// they may run at the same time, and the answer is the same if they do not.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "branching.h"
#include "diving.h"
#include "neighbourhood_search.h"
#include "price_ascent.h"
#include "probing.h"

namespace meshwright {

class Stage {
 public:
  // `is_late` may be called by two threads at once; when it says so, a round ends soon. Rounds are shorter where one would take more than `most_work`.
  Stage(const CompactSpace& space, const PointPrices& prices, MessagePassing messages, std::uint64_t seed, std::int64_t most_work, bool two_threads,
        const std::function<bool()>& is_late);

  // `upper` is the cost of the best choice that is known anywhere, infinity if there is none, in the space's shifted
  // ticks; `target` what is hoped for while there is none.
  void round(double upper, double target);

  void start_from(const std::vector<std::uint32_t>& choice) { search_.start_from(choice, ascent_.prices()); }
  // The best choice of the searches; its cost is infinity if there is none.
  [[nodiscard]] const std::vector<std::uint32_t>& choice() const { return best_search().choice(); }
  [[nodiscard]] double cost() const { return best_search().cost(); }
  // Of the ascent and the branches.
  [[nodiscard]] double bound() const { return std::max(ascent_.bound(), branched_bound_); }
  [[nodiscard]] const PriceAscent& ascent() const { return ascent_; }
  // Strategies that probing excluded and that exclude() was not told of yet.
  [[nodiscard]] std::int64_t probed_out() const { return probed_out_; }
  void exclude_above(double cost);
  [[nodiscard]] std::int64_t work() const { return plain_work() + branched_work(); }

 private:
  [[nodiscard]] const NeighbourhoodSearch& best_search() const { return other_.cost() < search_.cost() ? other_ : search_; }
  [[nodiscard]] std::int64_t plain_work() const { return ascent_.work() + search_.work() + other_.work() + probing_.work() + diving_.work(); }
  [[nodiscard]] std::int64_t branched_work() const { return felled_work_ + (branching_ ? branching_->work() : 0); }
  [[nodiscard]] bool branches_are_due(double upper) const;
  void branch(double upper);
  void climb(double target);
  void probe(double upper);
  void search(NeighbourhoodSearch& search, std::int64_t work, double noise) const;
  void share_best();
  void recombine();
  void restart();
  void look_for_room();

  const CompactSpace& space_;
  const std::int64_t size_;  // entries and strategies
  const int steps_;          // in a round
  const bool two_threads_;
  const std::function<bool()>& is_late_;
  PriceAscent ascent_;
  NeighbourhoodSearch search_, other_;
  Probing probing_;
  Diving diving_;
  std::vector<std::vector<std::uint32_t>> kept_;  // choices that a search came to, for recombining; the oldest first
  PointPrices prices_;  // for the searches; the ascent's of the round before
  std::vector<std::uint32_t> pointed_to_;  // by the messages, likewise
  // The best choice when the round began: what the other search finds meanwhile is another thread's.
  std::vector<std::uint32_t> known_;
  double known_cost_ = 0;
  std::int64_t rounds_ = 0, probed_out_ = 0;
  std::int64_t probes_ = 0;  // rounds of probing since it was decided what comes first,
  std::int64_t probing_rounds_ = 0;  // and of all
  std::optional<Branching> branching_;
  double branched_bound_ = 0;
  std::int64_t plain_before_ = 0;  // plain_work() when the tree was begun
  std::int64_t felled_work_ = 0;   // of trees that are no more
  std::vector<double> climbed_;    // the ascent's bounds after its last rounds
  bool idle_ = false;     // the searches gained nothing in the last round
  bool dives_ = false;    // the search starts this round from a dive
  bool level_ = false;    // the ascent gained little in its last round
  bool changing_probed_out_ = false;  // probing excluded a strategy that decides much
};

}  // namespace meshwright
