#include "galvatron.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "menu_table.h"
#include "meshwright/plugin.h"

namespace meshwright {

namespace {

constexpr double kNothing = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostPaces = 1000;  // lengths of the longest stage that are tried, of each number of stages
constexpr double kMostMenuSteps = 3e9;    // nodes of all stages, times two entries each

// Cuts into the stages of one menu.
class MenuCut {
 public:
  MenuCut(const MenuProblem& problem, const Menu& menu) : problem_(problem), menu_(menu), nodes_(static_cast<std::uint32_t>(problem.nodes.size())) {
    if (menu.stages > nodes_) return;
    for (std::uint32_t stage = 0; stage < menu.stages; ++stage) {
      std::vector<double>& seconds = seconds_[in_flight(stage)];
      if (seconds.empty()) fill(in_flight(stage), seconds);
    }
    search();
  }

  [[nodiscard]] double step_seconds() const { return step_seconds_; }  // infinite: nothing fits
  [[nodiscard]] bool exact() const { return exact_; }

  [[nodiscard]] std::vector<PlacementStage> stages() const {
    std::vector<PlacementStage> stages;
    std::uint32_t from = 0;
    for (std::uint32_t stage = 0; stage < menu_.stages; ++stage) {
      PlacementStage& made = stages.emplace_back();
      for (std::uint32_t node = from; node < ends_[stage]; ++node) made.nodes.push_back(node);
      made.tensor = problem_.devices / menu_.stages;
      made.variants = MenuTable(problem_, menu_, from, in_flight(stage)).entries(ends_[stage]);
      from = ends_[stage];
    }
    return stages;
  }

 private:
  [[nodiscard]] double in_flight(std::uint32_t stage) const { return std::min<double>(menu_.stages - stage, problem_.microbatches); }
  [[nodiscard]] std::size_t at(std::uint32_t from, std::uint32_t end) const { return std::size_t{from} * (nodes_ + 1) + end; }

  void fill(double in_flight, std::vector<double>& seconds) {
    seconds.assign(std::size_t{nodes_} * (nodes_ + 1), kNothing);
    for (std::uint32_t from = 0; from < nodes_; ++from) {
      const MenuTable table(problem_, menu_, from, in_flight);
      exact_ = exact_ && table.exact();
      for (std::uint32_t end = from + 1; end <= nodes_; ++end) seconds[at(from, end)] = table.seconds(end);
    }
  }

  // The least sum of stages none of which takes longer than `pace`, and where they end.
  std::pair<double, std::vector<std::uint32_t>> least_sum(double pace) const {
    const std::size_t row = nodes_ + 1;
    std::vector<double> best(row * (menu_.stages + 1), kNothing);
    std::vector<std::uint32_t> from_of(best.size(), 0);
    best[0] = 0;
    for (std::uint32_t stage = 0; stage < menu_.stages; ++stage) {
      const std::vector<double>& seconds = seconds_.at(in_flight(stage));
      for (std::uint32_t from = stage; from < nodes_; ++from) {
        const double before = best[stage * row + from];
        if (before == kNothing) continue;
        for (std::uint32_t end = from + 1; end <= nodes_; ++end) {
          const double here = seconds[at(from, end)];
          if (here > pace || before + here >= best[(stage + 1) * row + end]) continue;
          best[(stage + 1) * row + end] = before + here;
          from_of[(stage + 1) * row + end] = from;
        }
      }
    }
    std::vector<std::uint32_t> ends(menu_.stages, nodes_);
    for (std::uint32_t stage = menu_.stages; stage-- > 1;) ends[stage - 1] = from_of[(stage + 1) * row + ends[stage]];
    return {best[menu_.stages * row + nodes_], std::move(ends)};
  }

  // From the shortest pace at which there are stages on, until a longer one makes no shorter step.
  void search() {
    const double least = least_sum(std::numeric_limits<double>::max()).first;
    if (least == kNothing) return;
    std::vector<double> paces;
    for (const auto& [flight, seconds] : seconds_) std::ranges::copy_if(seconds, std::back_inserter(paces), [](double one) { return one < kNothing; });
    std::ranges::sort(paces);
    paces.erase(std::unique(paces.begin(), paces.end()), paces.end());
    paces.erase(paces.begin(), std::ranges::partition_point(paces, [&](double pace) { return least_sum(pace).first == kNothing; }));
    const std::size_t every = (paces.size() + kMostPaces - 1) / kMostPaces;
    for (std::size_t i = 0; i < paces.size(); i += every) {
      const double waits = (static_cast<double>(problem_.microbatches) - 1) * paces[i];
      if (waits + least >= step_seconds_) return;
      exact_ = exact_ && every == 1;
      auto [sum, ends] = least_sum(paces[i]);
      if (waits + sum >= step_seconds_) continue;
      step_seconds_ = waits + sum;
      ends_ = std::move(ends);
    }
  }

  const MenuProblem& problem_;
  const Menu& menu_;
  std::uint32_t nodes_;
  std::map<double, std::vector<double>> seconds_;  // by microbatches in flight: of stages [from, end)
  double step_seconds_ = kNothing;                 // at most: the longest stage may be shorter than its pace
  std::vector<std::uint32_t> ends_;
  bool exact_ = true;
};

Status check_size(const MenuProblem& problem) {
  double steps = 0;
  const auto nodes = static_cast<double>(problem.nodes.size());
  for (const Menu& menu : problem.menus) {
    const auto entries = static_cast<double>(menu.entries.size());
    steps += std::min<double>(menu.stages, problem.microbatches) * nodes * nodes * entries * entries;
  }
  if (steps <= kMostMenuSteps) return Done{};
  return bad_input("galvatron looks at each stage that " + std::to_string(problem.nodes.size()) + " nodes can make, with each two entries of its menus, which is too much; take fewer nodes, stages or microbatches");
}

std::string why_nothing_fits(const MenuProblem& problem) {
  std::string numbers;
  for (const Menu& menu : problem.menus) numbers += (numbers.empty() ? "" : ", ") + std::to_string(menu.stages);
  return "no entries of the menus for " + numbers + " stages of " + std::to_string(problem.nodes.size()) + " nodes hold " + std::to_string(static_cast<std::int64_t>(std::min(problem.device_bytes, 9e18))) + " bytes at most on each device";
}

}  // namespace

Result<PlacementAnswer> Galvatron::do_solve(const PlacementProblem& problem) const {
  const auto* menus = std::get_if<MenuProblem>(&problem);
  if (menus == nullptr) return other_problem("galvatron", problem);
  if (Status status = check_size(*menus); !status) return status.error();
  PlacementAnswer answer;
  double best = kNothing;
  bool exact = true;
  for (const Menu& menu : menus->menus) {
    const MenuCut cut(*menus, menu);
    exact = exact && cut.exact();
    if (cut.step_seconds() >= best) continue;
    best = cut.step_seconds();
    answer.stages = cut.stages();
  }
  if (answer.stages.empty()) {
    answer.status = SolveStatus::infeasible;
    answer.binding = why_nothing_fits(*menus) + (exact ? "" : ", of those that were kept");
    return answer;
  }
  const Result<PlacementCost> cost = evaluate(problem, answer.stages);
  if (!cost) return cost.error();
  answer.objective = cost->objective;
  answer.status = exact ? SolveStatus::optimal : SolveStatus::heuristic;
  answer.method = "entries and cuts for " + std::to_string(menus->menus.size()) + (menus->menus.size() == 1 ? " number of stages" : " numbers of stages");
  return answer;
}

MESHWRIGHT_PLUGIN("inter", "galvatron", "0.1.0", "Apache-2.0", "Miao et al. 2022, Galvatron: for each layer an entry of a menu of layouts, with cuts into equal stages", nullptr, nullptr, 0,
                  (create_plugin<InterSolver, Galvatron>), destroy_plugin<InterSolver>)

}  // namespace meshwright
