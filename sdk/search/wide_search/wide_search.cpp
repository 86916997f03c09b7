#include "wide_search.h"

#include <algorithm>
#include <memory>

#include "shrinking_space.h"
#include "stage.h"

namespace meshwright {

namespace {

constexpr double kCloser = 0.9;       // strategies are excluded again when the gap is as much smaller,
constexpr double kManyProbed = 0.02;  // or when probing excluded as many of them
constexpr double kGuess = 0.1;        // how far above the bound a choice is looked for while none is known
constexpr std::int64_t kLeastRound = 50'000;  // steps: a round of which little is left to do is not for nothing

class WideSearch {
 public:
  WideSearch(const StrategySpace& space, std::int64_t budget, const WideSearchOptions& options)
      : original_(space), budget_(budget), options_(options), space_(space, budget, options.reduce_work), seed_(options.seed) {}

  WideSearchResult run() {
    if (space_.is_infeasible()) {
      result_.infeasible = true;
      result_.method = "reduction";
      return std::move(result_);
    }
    if (!leaves_room()) return std::move(result_);
    most_cost_ = most_cost(space_.space()) + space_.constant();
    if (!options_.start.empty()) consider_lifted(options_.start);
    open_stage({}, {}, nullptr);
    while (!proven_ && spend()) {
      searched_ = true;
      stage_->round(upper(), target());
      note_choice();
      note_bound();
      if (!proven_ && has_choice_) exclude();
    }
    if (!proven_ && !asked_) finish(true);
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

  // For the space as it is now.
  void open_stage(const PointPrices& prices, const Messages& messages, const std::vector<std::uint32_t>* start) {
    stage_.reset();
    spent_ = 0;
    if (space_.space().nodes.empty()) {
      consider({});
      proven_ = true;
      return;
    }
    if (finish(false)) return;
    MessagePassing start_messages(space_.compact());
    if (!messages.empty()) {
      const ShrinkingSpace::Before before = space_.before();
      start_messages.start_from(messages, before.nodes, before.strategies);
    }
    stage_ = std::make_unique<Stage>(space_.compact(), prices, std::move(start_messages), seed_++, options_.most_work, options_.two_threads, options_.is_late);
    if (start != nullptr) stage_->start_from(*start);
    note_bound();
  }

  bool spend() {
    const std::int64_t more = stage_->work() - spent_;
    spent_ += more;
    return options_.spend(std::max(more, kLeastRound));
  }

  // In the shifted ticks of the space as it is now.
  [[nodiscard]] double upper() const {
    return has_choice_ ? static_cast<double>((result_.cost - space_.constant()) >> space_.compact().shift()) : kNever;
  }
  [[nodiscard]] double target() const {
    const double bound = stage_->ascent().bound();
    return has_choice_ ? upper() : bound + 1 + kGuess * std::max(0.0, bound);
  }

  void note_bound() {
    const double bound = stage_->bound();
    if (bound == kNever) {
      proven_ = true;  // nothing is left that costs as little as what is known
      result_.infeasible = !has_choice_;
      return;
    }
    raise_bound((static_cast<TickSum>(bound) << space_.compact().shift()) + space_.constant());
  }

  void raise_bound(TickSum bound) {
    result_.lower_bound = std::max(result_.lower_bound, bound);
    if (has_choice_ && result_.lower_bound >= result_.cost) proven_ = true;
    if (has_choice_ || result_.lower_bound <= most_cost_) return;
    // Prices can raise the bound above all that any choice costs only if none fits.
    proven_ = result_.infeasible = true;
    result_.least_bytes = budget_ + 1;
  }

  void note_choice() {
    if (stage_->cost() >= known_cost_) return;
    known_cost_ = stage_->cost();
    consider(stage_->choice());
  }

  // A choice of the space as it is now.
  void consider(const std::vector<std::uint32_t>& choice) {
    consider_lifted(space_.lift(choice));
  }

  void consider_lifted(std::vector<std::uint32_t> lifted) {
    const Evaluation evaluation = evaluate(original_, lifted);
    if (!evaluation.allowed || evaluation.peak_bytes > budget_) return;
    if (has_choice_ && evaluation.cost >= result_.cost) return;
    has_choice_ = true;
    result_.cost = evaluation.cost;
    result_.choice = std::move(lifted);
    if (result_.lower_bound >= result_.cost) proven_ = true;
  }

  void exclude() {
    const double gap = upper() - stage_->ascent().bound();
    const bool many = static_cast<double>(stage_->probed_out()) > kManyProbed * static_cast<double>(space_.compact().strategies());
    if (gap <= kCloser * tried_gap_ || many) {
      tried_gap_ = gap;
      stage_->exclude_above(upper());
      note_bound();
      if (proven_) return;
    }
    std::vector<bool> dropped;
    for (std::size_t s = 0; s < space_.compact().strategies(); ++s) {
      dropped.push_back(stage_->ascent().messages().is_excluded(s));
    }
    if (!ShrinkingSpace::is_worth_it(dropped)) return;
    spend();
    PointPrices prices = stage_->ascent().prices();
    const Messages messages = stage_->ascent().messages().messages();
    const std::vector<std::uint32_t> known = stage_->choice();
    stage_.reset();  // before the space that it looks at
    space_.shrink(dropped, prices);
    if (space_.is_infeasible()) {
      proven_ = true;
      return;
    }
    known_cost_ = kNever;
    shrunk_ = true;
    if (known.empty()) return open_stage(prices, messages, nullptr);
    const std::vector<std::uint32_t> carried = space_.carry(known);
    open_stage(prices, messages, &carried);
  }

  // True if that was all.
  bool finish(bool last) {
    if (!options_.finish) return false;
    const std::optional<Assignment> answer = options_.finish(space_.space(), budget_, last);
    asked_ = answer.has_value();
    if (!answer) return false;
    finished_ = answer->method;
    if (!answer->choice.empty()) consider(answer->choice);
    if (answer->status == SolveStatus::infeasible) {
      proven_ = true;
      result_.infeasible = !has_choice_;
      result_.least_bytes = answer->least_bytes;
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
    result_.method = searched_ ? "message passing, neighbourhood search" : space_.space().nodes.empty() ? "reduction" : "";
    if (shrunk_) result_.method += ", strategies excluded by the bound";
    if (!finished_.empty()) result_.method += (result_.method.empty() ? "" : ", then ") + finished_;
    if (result_.method.empty()) result_.method = "message passing";
    return std::move(result_);
  }

  const StrategySpace& original_;
  const std::int64_t budget_;
  const WideSearchOptions& options_;
  ShrinkingSpace space_;
  std::unique_ptr<Stage> stage_;
  std::uint64_t seed_;
  std::int64_t spent_ = 0;      // of the stage's work
  double known_cost_ = kNever;  // of the stage's best choice
  double tried_gap_ = kNever;
  TickSum most_cost_ = 0;
  bool has_choice_ = false, proven_ = false, shrunk_ = false;
  bool searched_ = false;
  bool asked_ = false;   // the exact solver has answered for the space as it is now
  std::string finished_;
  WideSearchResult result_;
};

}  // namespace

WideSearchResult wide_search(const StrategySpace& space, std::int64_t budget, const WideSearchOptions& options) {
  return WideSearch(space, budget, options).run();
}

Assignment to_assignment(WideSearchResult found, std::int64_t budget) {
  Assignment result;
  result.method = std::move(found.method);
  if (found.infeasible) {
    result.status = SolveStatus::infeasible;
    result.least_bytes = found.least_bytes;
    if (found.least_bytes == 0) {
      result.binding = kNothingAllowed;
    } else if (found.time) {
      result.binding = binding_text(found.least_bytes, *found.time, budget);
    } else {
      result.binding = "needs at least " + std::to_string(found.least_bytes) + " bytes per device; the budget is " +
                       std::to_string(budget) + " bytes";
    }
    return result;
  }
  result.choice = std::move(found.choice);
  result.cost = found.cost;
  result.lower_bound = found.lower_bound;
  result.status = found.lower_bound > 0 ? SolveStatus::bounded : SolveStatus::heuristic;
  if (!result.choice.empty() && found.cost == found.lower_bound) result.status = SolveStatus::optimal;
  return result;
}

}  // namespace meshwright
