#include "reinforce.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>

#include "meshwright/plugin.h"
#include "placement_draw.h"
#include "placement_policy.h"
#include "split_mix.h"

namespace meshwright {

namespace {

constexpr double kBaselineDecay = 0.9;                   // of the moving average, for each step
constexpr double kBrokenLoads = 4;                       // the time of a placement that breaks a rule, over the worst of all
constexpr std::size_t kMostParameters = 4'000'000;       // pieces times devices
constexpr std::uint64_t kMostOptions = 500'000'000;      // looked at: half a minute or so

class ReinforceRun {
 public:
  ReinforceRun(const LoadProblem& problem, const ReinforceSettings& settings) : settings_(settings), draw_(problem), policy_(draw_.rows(), std::max<std::size_t>(draw_.devices(), 2)), numbers_{settings.seed} {}

  ReinforceFound run() {
    for (std::int64_t step = 0; step < settings_.steps && !found_.ended_early; ++step) {
      double sum = 0;
      std::int64_t count = 0;
      while (count < settings_.samples && !found_.ended_early) {
        sum += sample();
        ++count;
        found_.ended_early = draw_.options() > kMostOptions;
      }
      const double mean = sum / static_cast<double>(count);
      baseline_ = kBaselineDecay * baseline_ + (1 - kBaselineDecay) * mean;
      policy_.descend();
    }
    return std::move(found_);
  }

 private:
  // One placement. Returns its R, in roots of an even load so that no unit of time matters.
  double sample() {
    const bool keeps = draw_.draw(policy_, numbers_);
    const double load = keeps ? draw_.load() : kBrokenLoads * draw_.worst_load();
    const double cost = std::sqrt(load / draw_.even_load());
    if (found_.drawn == 0) baseline_ = cost;
    policy_.add_gradient((cost - baseline_) / static_cast<double>(settings_.samples));
    note(keeps, load);
    return cost;
  }

  void note(bool keeps, double load) {
    ++found_.drawn;
    if (!keeps) {
      ++found_.broken;
      return;
    }
    if (found_.stages.empty()) found_.first_load = load;
    if (!found_.stages.empty() && load >= found_.best_load) return;
    found_.best_load = load;
    found_.stages = draw_.stages();
  }

  const ReinforceSettings& settings_;
  PlacementDraw draw_;
  PlacementPolicy policy_;
  SplitMix numbers_;
  double baseline_ = 0;
  ReinforceFound found_;
};

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", seconds);
  return text;
}

std::string method_of(const ReinforceFound& found) {
  std::string text = std::to_string(found.drawn) + " placements drawn, the first one of " + seconds_text(found.first_load) + " s";
  if (found.broken > 0) text += ", " + std::to_string(found.broken) + " of them without room";
  if (found.ended_early) text += "; fewer than asked for, since the problem is large";
  return text;
}

}  // namespace

ReinforceFound reinforce(const LoadProblem& problem, const ReinforceSettings& settings) { return ReinforceRun(problem, settings).run(); }

Result<PlacementAnswer> Reinforce::do_solve(const PlacementProblem& problem) const {
  const auto* load = std::get_if<LoadProblem>(&problem);
  if (load == nullptr) return other_problem("reinforce", problem);
  const std::size_t nodes = load->nodes.size(), devices = std::min<std::size_t>(load->accelerators, nodes) + std::min<std::size_t>(load->hosts, nodes);
  if (nodes * devices > kMostParameters) {
    return bad_input("reinforce has a parameter for each node and device, which is too much for " + std::to_string(nodes) + " nodes, " + std::to_string(load->accelerators) + " accelerators and " +
                     std::to_string(load->hosts) + " hosts; take fewer devices");
  }
  PlacementAnswer answer;
  answer.binding = PlacementDraw(*load).why_infeasible();
  if (!answer.binding.empty()) {
    answer.status = SolveStatus::infeasible;
    return answer;
  }
  ReinforceFound found = reinforce(*load, settings_);
  if (found.stages.empty()) {
    return bad_input("reinforce drew " + std::to_string(found.drawn) + " placements, and none of them has room for all nodes, which proves nothing; take more steps, or --inter max_load");
  }
  answer.method = method_of(found);
  answer.stages = std::move(found.stages);
  answer.objective = found.best_load;
  return answer;
}

namespace {

constexpr const char *kSeed = "seed", *kSteps = "steps", *kSamples = "samples";

constexpr meshwright_config_key_v1 kSchema[] = {
    {kSeed, "integer", "", "0", "start of the random numbers"},
    {kSteps, "integer", "", "500", "how often the policy learns from placements that were drawn"},
    {kSamples, "integer", "", "10", "placements that are drawn for each step"},
};

void* create(const Config& config, Error& error) {
  for (const char* key : {kSteps, kSamples}) {
    if (config.integer(key) >= 1) continue;
    error = bad_input(std::string(key) + " must be at least 1, not " + std::to_string(config.integer(key)));
    return nullptr;
  }
  return static_cast<InterSolver*>(new Reinforce({static_cast<std::uint64_t>(config.integer(kSeed)), config.integer(kSteps), config.integer(kSamples)}));
}

}  // namespace

MESHWRIGHT_PLUGIN("inter", "reinforce", "0.1.0", "Apache-2.0", "Mirhoseini et al. 2017: placements drawn from a policy that learns by REINFORCE", nullptr, kSchema, std::size(kSchema), create, destroy_plugin<InterSolver>)

}  // namespace meshwright
