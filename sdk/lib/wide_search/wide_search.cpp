#include "wide_search.h"

#include <algorithm>
#include <memory>

#include "neighbourhood_search.h"
#include "price_ascent.h"
#include "probing.h"
#include "shrinking_space.h"

#ifdef WDEBUG
#include <cstdio>
#include <ctime>
static double last_p=0; static double nowp(){timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec+1e-9*t.tv_nsec;}
#define DEBUG_ROUND if(nowp()>last_p+WDEBUG||round<3){last_p=nowp();std::printf("  round %d n %zu strategies %zu entries %ld T %zu cost %ld current %ld bound %ld conv %d\n",round,space_.compact().size(),space_.compact().strategies(),(long)space_.compact().entries(),space_.compact().rooms().size(),(long)result_.cost,(long)(search_->current_cost()+(double)space_.constant()),(long)(ascent_->bound()+(double)space_.constant()),ascent_->has_converged());fflush(stdout);}
#else
#define DEBUG_ROUND
#endif
namespace meshwright {

namespace {

constexpr int kStepsPerRound = 50;       // of the ascent
constexpr int kExcludingSweeps = 3;
constexpr double kCloser = 0.9;          // strategies are excluded again when the gap is as much smaller
constexpr double kGuess = 0.1;           // how far above the bound a choice is looked for while none is known
constexpr int kRoundsPerStart = 4;
constexpr std::int64_t kProbingShare = 100;  // of a round, in times of the space's size
constexpr std::int64_t kAfterProbe = 20;     // the search's, likewise
constexpr double kManyProbed = 0.02;         // of the strategies were excluded by probing

class WideSearch {
 public:
  WideSearch(const StrategySpace& space, std::int64_t budget, const WideSearchOptions& options)
      : original_(space), budget_(budget), options_(options), space_(space, budget), seed_(options.seed) {}

  WideSearchResult run() {
    if (space_.is_infeasible()) {
      result_.infeasible = true;
      result_.method = "reduction";
      return std::move(result_);
    }
    if (!leaves_room()) return std::move(result_);
    most_cost_ = most_cost();
    open_stage({}, nullptr);
    bool more = options_.spend(1);
    for (int round = 0; more && !proven_; ++round) more = do_round(round);
    return close();
  }

 private:
  // False, with the reason, if the least of all nodes is too much at some time.
  bool leaves_room() {
    const auto rooms = space_.compact().rooms();
    const auto least = std::min_element(rooms.begin(), rooms.end());
    if (least == rooms.end() || *least >= 0) return true;
    result_.infeasible = true;
    result_.least_bytes = budget_ - *least;
    result_.time = space_.time_of(static_cast<std::size_t>(least - rooms.begin()));
    result_.method = "fewest bytes of each node";
    return false;
  }

  // Of any allowed choice.
  [[nodiscard]] TickSum most_cost() const {
    const auto largest = [](const std::vector<Ticks>& costs) {
      Ticks result = 0;
      for (const Ticks cost : costs) result = cost < kForbidden ? std::max(result, cost) : result;
      return result;
    };
    TickSum sum = space_.constant();
    std::vector<Ticks> of_table;
    for (const SpaceNode& node : space_.space().nodes) sum += largest(node.costs);
    for (const CostTable& table : space_.space().tables) of_table.push_back(largest(table.costs));
    for (const SpaceEdge& edge : space_.space().edges) sum += of_table[edge.table];
    return sum;
  }

  // What is looked for in the space as it is now.
  void open_stage(const PointPrices& prices, const std::vector<std::uint32_t>* carried) {
    search_.reset();  // before what it refers to
    ascent_.reset();
    probing_.reset();
    if (space_.space().nodes.empty()) {
      consider({});
      proven_ = true;
      return;
    }
    if (finish()) return;
    ascent_ = std::make_unique<PriceAscent>(space_.compact(), prices);
    search_ = std::make_unique<NeighbourhoodSearch>(space_.compact(), seed_++);
    probing_ = std::make_unique<Probing>(space_.compact());
    if (carried != nullptr) search_->start_from(*carried, ascent_->prices());
    spent_ascent_ = spent_search_ = spent_probing_ = 0;
    probed_out_ = 0;
    note_bound();
  }

  bool do_round(int round) {
    for (int i = 0; i < kStepsPerRound && !ascent_->has_converged(); ++i) {
      ascent_->step(target());
      if (!spend(ascent_->work(), spent_ascent_)) return false;
    }
    note_bound();
    if (proven_) return true;
    if (idle_ && search_->has_choice() && !probe()) return false;
    const double before = search_->current_cost();
    const bool start = search_->current_cost() == kNever || (idle_ && round % kRoundsPerStart == 0);
    if (start) search_->start_from(ascent_->choice(), ascent_->prices());
    if (idle_ && round % kRoundsPerStart == kRoundsPerStart / 2) search_->go_back_to_best();
    search_->run(ascent_->prices(), std::max<std::int64_t>(spent_round_, 20 * space_.compact().entries()), noise());
    idle_ = search_->current_cost() >= before;
    spent_round_ = 0;
    note_cost();
    DEBUG_ROUND
    note_bound();
    if (!spend(search_->work(), spent_search_)) return false;
    if (!proven_ && has_choice_) exclude();
    return true;
  }

  // For as much work as a round of the search.
  bool probe() {
    const std::int64_t end = probing_->work() + kProbingShare * space_.compact().entries();
    do {
      const Probing::Outcome outcome = probing_->probe(*ascent_, upper(), search_->choice());
      if (outcome.excluded) ++probed_out_;
      if (!outcome.choice.empty()) {
        search_->start_from(outcome.choice, ascent_->prices());
        search_->run(ascent_->prices(), kAfterProbe * space_.compact().entries(), noise());
        note_cost();
      }
      if (!spend(probing_->work(), spent_probing_) || !spend(search_->work(), spent_search_)) return false;
    } while (probing_->work() < end);
    return true;
  }

  void note_cost() {
    if (!search_->has_choice() || search_->cost() >= known_cost_) return;
    known_cost_ = search_->cost();
    consider(search_->choice());
  }

  bool spend(std::int64_t total, std::int64_t& counted) {
    const std::int64_t more = total - counted;
    counted = total;
    if (&counted == &spent_ascent_) spent_round_ += more;
    return options_.spend(more);
  }

  // In the shifted ticks of the space as it is now.
  [[nodiscard]] double upper() const {
    return has_choice_ ? static_cast<double>((result_.cost - space_.constant()) >> space_.compact().shift()) : kNever;
  }
  [[nodiscard]] double target() const {
    if (has_choice_) return upper();
    return ascent_->bound() + 1 + kGuess * std::max(0.0, ascent_->bound());
  }
  [[nodiscard]] double noise() const { return std::max(1.0, target() - ascent_->bound()); }

  void note_bound() {
    if (ascent_->bound() == kNever) {
      proven_ = true;  // nothing is left that costs as little as what is known
      result_.infeasible = !has_choice_;
      return;
    }
    raise_bound((static_cast<TickSum>(ascent_->bound()) << space_.compact().shift()) + space_.constant());
  }

  void raise_bound(TickSum bound) {
    result_.lower_bound = std::max(result_.lower_bound, bound);
    if (has_choice_ && result_.lower_bound >= result_.cost) proven_ = true;
    if (has_choice_ || result_.lower_bound <= most_cost_) return;
    // Prices can raise the bound above all that any choice costs only if none fits.
    proven_ = result_.infeasible = true;
    result_.least_bytes = budget_ + 1;
  }

  // A choice of the space as it is now.
  void consider(const std::vector<std::uint32_t>& choice) {
    std::vector<std::uint32_t> lifted = space_.lift(choice);
    const Evaluation evaluation = evaluate(original_, lifted);
    if (!evaluation.allowed || evaluation.peak_bytes > budget_) return;
    if (has_choice_ && evaluation.cost >= result_.cost) return;
    has_choice_ = true;
    result_.cost = evaluation.cost;
    result_.choice = std::move(lifted);
    raise_bound(0);
  }

  void exclude() {
    const double gap = upper() - ascent_->bound();
    const bool many = static_cast<double>(probed_out_) > kManyProbed * static_cast<double>(space_.compact().strategies());
    if (gap > kCloser * tried_gap_ && !many) return;
    tried_gap_ = gap;
    probed_out_ = 0;
    ascent_->exclude_above(upper(), kExcludingSweeps);
    note_bound();
    if (proven_) return;
    std::vector<bool> dropped;
    for (std::size_t s = 0; s < space_.compact().strategies(); ++s) dropped.push_back(ascent_->messages().is_excluded(s));
    PointPrices prices = ascent_->prices();
    const std::vector<std::uint32_t> known = search_->has_choice() ? search_->choice() : ascent_->choice();
    search_.reset();
    if (!space_.shrink(dropped, prices)) {
      search_ = std::make_unique<NeighbourhoodSearch>(space_.compact(), seed_++);
      search_->start_from(known, prices);
      return;
    }
    if (space_.is_infeasible()) {
      proven_ = true;
      return;
    }
    known_cost_ = kNever;
    shrunk_ = true;
    const std::vector<std::uint32_t> carried = space_.carry(known);
    open_stage(prices, &carried);
  }

  // True if that was all.
  bool finish() {
    if (!options_.finish) return false;
    const std::optional<Assignment> answer = options_.finish(space_.space(), budget_);
    if (!answer) return false;
    finished_ = answer->method;
    if (!answer->choice.empty()) consider(answer->choice);
    if (answer->status == SolveStatus::infeasible) {
      result_.infeasible = !has_choice_;
      result_.least_bytes = answer->least_bytes;
      proven_ = true;
    } else {
      TickSum bound = answer->lower_bound + space_.constant();
      if (has_choice_) bound = std::min(bound, result_.cost);  // what costs more than that may have been dropped
      raise_bound(bound);
    }
    return proven_;
  }

  WideSearchResult close() {
    if (proven_ && has_choice_) result_.lower_bound = result_.cost;
    if (has_choice_) result_.lower_bound = std::min(result_.lower_bound, result_.cost);
    result_.method = "message passing, neighbourhood search";
    if (shrunk_) result_.method += ", strategies excluded by the bound";
    if (proven_ && !finished_.empty()) result_.method += ", then " + finished_;
    return std::move(result_);
  }

  const StrategySpace& original_;
  const std::int64_t budget_;
  const WideSearchOptions& options_;
  ShrinkingSpace space_;
  std::unique_ptr<PriceAscent> ascent_;
  std::unique_ptr<NeighbourhoodSearch> search_;
  std::unique_ptr<Probing> probing_;
  std::uint64_t seed_;
  std::int64_t spent_ascent_ = 0, spent_search_ = 0, spent_probing_ = 0, spent_round_ = 0;
  std::int64_t probed_out_ = 0;  // strategies, since strategies were excluded last
  double known_cost_ = kNever;  // of search_
  double tried_gap_ = kNever;
  TickSum most_cost_ = 0;
  bool idle_ = false;           // the last round of the search gained nothing
  bool has_choice_ = false, proven_ = false, shrunk_ = false;
  std::string finished_;
  WideSearchResult result_;
};

}  // namespace

WideSearchResult wide_search(const StrategySpace& space, std::int64_t budget, const WideSearchOptions& options) {
  return WideSearch(space, budget, options).run();
}

}  // namespace meshwright
