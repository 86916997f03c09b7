#include "tap.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>

#include "derive.h"
#include "meshwright/cost.h"
#include "meshwright/log.h"
#include "meshwright/plugin.h"

namespace meshwright::tap {

namespace {

constexpr std::size_t kMostAxesForAllSets = 4;  // beyond, the tensor axes are the last ones of the mesh
constexpr int kMostPrices = 14;                 // each four times the one before
constexpr int kBisections = 3;
constexpr double kFirstPrice = 1.0 / 256;       // of the cheapest plan's ticks over its bytes

struct Candidate {
  WholePlan plan;
  TickSum cost = 0;
  std::int64_t peak_bytes = 0;
};

std::string counted(std::int64_t count, const std::string& what) { return std::to_string(count) + " " + what + (count == 1 ? "" : "s"); }

std::string scope_of(const Block& block) { return block.scope.empty() ? "without a name" : block.scope; }

std::string axes_text(std::uint32_t axes) {
  std::string text;
  for (std::size_t axis = 0; axes >> axis != 0; ++axis) {
    if ((axes >> axis & 1U) != 0) text += (text.empty() ? "" : ",") + std::to_string(axis);
  }
  return text.empty() ? "data parallel" : "tensor axes " + text;
}

// The patterns of the block that most GraphNodes are in.
std::string most_frequent_block(const Folding& folding, const WholePlan& plan) {
  const Block* most = nullptr;
  std::size_t covered = 0, copies = 0;
  for (const std::vector<std::uint32_t>& unique : folding.unique) {
    const Block& first = folding.blocks[unique.front()];
    if (first.nodes.size() * unique.size() <= covered) continue;
    covered = first.nodes.size() * unique.size();
    copies = unique.size();
    most = &first;
  }
  if (most == nullptr) return "";
  std::string text = "; " + scope_of(*most) + " (x" + std::to_string(copies) + "):";
  for (const std::uint32_t node : most->nodes) text += " " + to_string(plan.patterns[node]);
  return text;
}

class Search {
 public:
  Search(const ModelProblem& model, const Folding& folding, const TrimmedGraph& trimmed, std::int64_t max_plans, Meter& meter)
      : model_(model), trimmed_(trimmed), folding_(folding), meter_(meter), deriver_(model.input, model.problem, trimmed, folding, max_plans, meter) {}

  // Adds the plan of each set of tensor axes. Whether one of all that are known fits.
  bool derive(double ticks_per_byte, std::int64_t budget) {
    Router router(model_.input, model_.problem, trimmed_, ticks_per_byte, meter_);
    for (const std::uint32_t axes : sets_of_axes()) {
      std::optional<WholePlan> plan = deriver_.derive(router, axes, examined_);
      if (!plan) continue;
      const Evaluation evaluation = evaluate(model_.problem.space, plan->choice);
      if (ticks_per_byte == 0) log_plan(axes, *plan, evaluation);
      if (evaluation.allowed) candidates_.push_back({std::move(*plan), evaluation.cost, evaluation.peak_bytes});
    }
    return best(budget) != nullptr;
  }

  // Where no plan fits, bytes are given a price: the lowest one, of a few, for which one does.
  void fit(std::int64_t budget) {
    if (candidates_.empty() || best(budget) != nullptr) return;
    const Candidate& cheapest = *best(kNoBudget);
    double none = 0, price = kFirstPrice * static_cast<double>(cheapest.cost) / static_cast<double>(std::max<std::int64_t>(cheapest.peak_bytes, 1));
    bool fits = false;
    for (int i = 0; i < kMostPrices && !fits && !meter_.exhausted(); ++i) {
      fits = derive(price, budget);
      if (!fits) none = price, price *= 4;
    }
    for (int i = 0; i < kBisections && fits && !meter_.exhausted(); ++i) {
      const double middle = (none + price) / 2;
      const std::size_t known = candidates_.size();
      derive(middle, budget);
      const bool any = std::any_of(candidates_.begin() + static_cast<std::ptrdiff_t>(known), candidates_.end(),
                                   [&](const Candidate& candidate) { return candidate.peak_bytes <= budget; });
      (any ? price : none) = middle;
    }
  }

  [[nodiscard]] const Candidate* best(std::int64_t budget) const {
    const Candidate* best = nullptr;
    for (const Candidate& candidate : candidates_) {
      if (candidate.peak_bytes <= budget && (best == nullptr || candidate.cost < best->cost)) best = &candidate;
    }
    return best;
  }

  [[nodiscard]] const Examined& examined() const { return examined_; }

 private:
  void log_plan(std::uint32_t axes, const WholePlan& plan, const Evaluation& evaluation) const {
    char text[64];
    std::snprintf(text, sizeof text, "%.3f ms", 1e3 * to_seconds(evaluation.cost));
    log(LogLevel::debug, "tap", "  " + axes_text(axes) + ": " + text + most_frequent_block(folding_, plan));
  }

  [[nodiscard]] std::vector<std::uint32_t> sets_of_axes() const {
    const std::size_t rank = model_.input.mesh.rank();
    std::vector<std::uint32_t> sets;
    if (rank <= kMostAxesForAllSets) {
      for (std::uint32_t axes = 0; axes < 1U << rank; ++axes) sets.push_back(axes);
    } else {
      for (std::size_t count = 0; count <= rank; ++count) sets.push_back(((1U << count) - 1) << (rank - count));
    }
    return sets;
  }

  const ModelProblem& model_;
  const TrimmedGraph& trimmed_;
  const Folding& folding_;
  Meter& meter_;
  Deriver deriver_;
  Examined examined_;
  std::vector<Candidate> candidates_;
};

// The least that each variable and each edge can cost, added up.
TickSum sum_of_least(const StrategySpace& space) {
  std::vector<Ticks> of_table;
  for (const CostTable& table : space.tables) of_table.push_back(*std::min_element(table.costs.begin(), table.costs.end()));
  TickSum sum = 0;
  const auto add = [&](Ticks ticks) { sum += ticks < kForbidden ? ticks : 0; };
  for (const SpaceNode& node : space.nodes) add(*std::min_element(node.costs.begin(), node.costs.end()));
  for (const SpaceEdge& edge : space.edges) add(of_table[edge.table]);
  return sum;
}

// The folding, for `meshwright --verbose`: the only place for seconds.
void log_folding(const TrimmedGraph& trimmed, const Folding& folding, std::size_t variables, double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6f", seconds);
  log(LogLevel::debug, "tap", "folded " + counted(static_cast<std::int64_t>(variables), "variable") + " into " +
                                  counted(static_cast<std::int64_t>(trimmed.nodes.size()), "GraphNode") + ", " +
                                  counted(static_cast<std::int64_t>(folding.blocks.size()), "block") + ", " +
                                  std::to_string(folding.unique.size()) + " unique, by " + (folding.by_name ? "name" : "structure") + " in " + text + " s");
  for (const std::vector<std::uint32_t>& copies : folding.unique) {
    const Block& first = folding.blocks[copies.front()];
    log(LogLevel::debug, "tap", "  " + scope_of(first) + ", " + counted(static_cast<std::int64_t>(first.nodes.size()), "GraphNode") + ", x" +
                                    std::to_string(copies.size()));
  }
}

std::string method_of(const TrimmedGraph& trimmed, const Folding& folding, const Examined& examined) {
  std::string text = "TAP, " + counted(static_cast<std::int64_t>(trimmed.nodes.size()), "GraphNode") + " in " +
                     counted(static_cast<std::int64_t>(folding.unique.size()), "unique block") + " of " + std::to_string(folding.blocks.size()) +
                     ", " + counted(examined.plans, "plan") + " examined";
  if (examined.valid < examined.plans) text += ", " + std::to_string(examined.valid) + " valid";
  if (!examined.in_parts.empty()) text += ", " + counted(static_cast<std::int64_t>(examined.in_parts.size()), "block") + " in parts";
  return text;
}

constexpr const char* kMinDuplicates = "min_duplicates";
constexpr const char* kMaxPlans = "max_plans";

constexpr meshwright_config_key_v1 kSchema[] = {
    {kMinDuplicates, "integer", "", "2", "how often the block that most weights are in must occur on a level of names for the model to be cut there; 1: nothing is folded"},
    {kMaxPlans, "integer", "", "6_561", "plans of one block that are all examined; where there are more, its weights are divided into parts that are examined in turn"},
};

void* create(const Config& config, Error& error) {
  for (const char* key : {kMinDuplicates, kMaxPlans}) {
    if (config.integer(key) >= 1) continue;
    error = bad_input(std::string(key) + " must be at least 1, not " + std::to_string(config.integer(key)));
    return nullptr;
  }
  return static_cast<IntraSolver*>(new Tap(config.integer(kMinDuplicates), config.integer(kMaxPlans)));
}

}  // namespace

Result<std::vector<Assignment>> Tap::do_solve(const StrategySpace&, std::span<const std::int64_t>, const SearchLimits&) const {
  return bad_input("tap reads the names and weights of a model, and this problem has numbers alone; choose elimination, ilp_cbc or ilp_lp_solve");
}

Result<std::vector<Assignment>> Tap::do_solve_model(const ModelProblem& model, std::span<const std::int64_t> budgets,
                                                    const SearchLimits& limits) const {
  Meter meter(limits);
  const auto begin = std::chrono::steady_clock::now();
  const TrimmedGraph trimmed = trim(model.input, model.problem);
  const Folding folding = fold(trimmed.nodes, min_duplicates_);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  log_folding(trimmed, folding, model.problem.variables.size(), seconds);

  const TickSum bound = sum_of_least(model.problem.space);
  Search search(model, folding, trimmed, max_plans_, meter);
  search.derive(0, kNoBudget);
  std::vector<Assignment> answers;
  for (const std::int64_t budget : budgets) search.fit(budget);
  for (const std::int64_t budget : budgets) {
    Assignment& answer = answers.emplace_back();
    answer.lower_bound = bound;
    answer.method = method_of(trimmed, folding, search.examined());
    if (meter.was_exhausted()) answer.method += ", stopped by its limits";
    answer.cut_off_by_clock = meter.cut_off_by_clock();
    const Candidate* best = search.best(budget);
    if (best == nullptr) {
      answer.binding = "none of the plans that were examined fits, though none is proven impossible";
      continue;
    }
    answer.choice = best->plan.choice;
    answer.method += "; " + axes_text(best->plan.tensor_axes) + most_frequent_block(folding, best->plan);
  }
  return answers;
}

MESHWRIGHT_PLUGIN("intra", "tap", "0.1.0", "Apache-2.0",
                  "TAP: shared subgraphs by name, sharding patterns of their weights, the least communication", nullptr, kSchema,
                  std::size(kSchema), create, destroy_plugin<IntraSolver>)

}  // namespace meshwright::tap
