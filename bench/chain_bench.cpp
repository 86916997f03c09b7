// meshwright_chain_bench [STAGES [SLOTS]]: CPU seconds of the checkpoint solvers on chains that are drawn, 400 stages
// and 500 slots of memory if nothing is said.
//
// Two chains: stages that are all different, and stages alike, which save 4 times what they read. Budgets lie between
// what everything kept needs and nothing. Asserts nothing about time.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/checkpoint.h"
#include "plugins/plugin_registry.h"

namespace {

using meshwright::Chain;
using meshwright::ChainStage;
using meshwright::CheckpointAnswer;
using meshwright::CheckpointSolver;
using meshwright::Result;
namespace host = meshwright::host;

constexpr std::int64_t kMegabyte = 1'000'000;
constexpr meshwright::Ticks kMicrosecond = meshwright::kTicksPerSecond / 1'000'000;

Chain unlike_chain(std::size_t stages) {
  std::mt19937_64 random(1);
  const auto draw = [&random](std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(to - from + 1));
  };
  Chain chain;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    ChainStage& here = chain.stages.emplace_back();
    here.forward_ticks = draw(50, 2000) * kMicrosecond;
    here.backward_ticks = 2 * here.forward_ticks + draw(0, 500) * kMicrosecond;
    here.forward_communication_ticks = draw(0, 3) == 0 ? draw(10, 1000) * kMicrosecond : 0;
    here.backward_communication_ticks = here.forward_communication_ticks;
    here.input_bytes = here.input_gradient_bytes = draw(5, 50) * kMegabyte + draw(0, 999'999);
    here.forward_overhead_bytes = draw(0, 50) * kMegabyte;
    here.backward_overhead_bytes = draw(0, 100) * kMegabyte;
  }
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::int64_t output = stage + 1 < stages ? chain.stages[stage + 1].input_bytes : 0;
    chain.stages[stage].saved_bytes = output + draw(0, 200) * kMegabyte;
  }
  return chain;
}

Chain alike_chain(std::size_t stages) {
  Chain chain;
  chain.stages.assign(stages, {.forward_ticks = 1000 * kMicrosecond,
                               .backward_ticks = 2000 * kMicrosecond,
                               .input_bytes = 20 * kMegabyte,
                               .input_gradient_bytes = 20 * kMegabyte,
                               .saved_bytes = 80 * kMegabyte,
                               .forward_overhead_bytes = 10 * kMegabyte,
                               .backward_overhead_bytes = 20 * kMegabyte});
  return chain;
}

// Returns whether the solver could be asked.
bool time_solver(const CheckpointSolver& solver, const std::string& id, const std::string& what, const Chain& chain,
                 std::int64_t budget, double share) {
  const std::vector<std::int64_t> budgets = {budget};
  const std::clock_t begin = std::clock();
  const Result<std::vector<CheckpointAnswer>> answers = solver.solve(chain, budgets);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  if (!answers) {
    std::fprintf(stderr, "%s: %s\n", id.c_str(), answers.error().message.c_str());
    return false;
  }
  const CheckpointAnswer& answer = answers->front();
  std::printf("| %s | %.0f %% | %s | %.2f |", what.c_str(), 100 * share, id.c_str(), seconds);
  if (answer.status == meshwright::SolveStatus::infeasible) {
    std::printf(" needs %.2f of the budget | | |\n",
                static_cast<double>(answer.least_bytes) / static_cast<double>(budget));
    return true;
  }
  const double slower =
      meshwright::to_seconds(answer.ticks) / meshwright::to_seconds(meshwright::ticks_without_recomputing(chain));
  std::printf(" %.4f | %.3f | %s |\n", slower, static_cast<double>(answer.peak_bytes) / static_cast<double>(budget),
              answer.method.c_str());
  return true;
}

}  // namespace

int main(int argument_count, char** arguments) {
  const std::size_t stages = argument_count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 400;
  const std::int64_t slots = argument_count > 2 ? std::strtol(arguments[2], nullptr, 10) : 500;
  if (stages == 0 || slots <= 0 || argument_count > 3) {
    std::fprintf(stderr, "usage: meshwright_chain_bench [STAGES [SLOTS]]\n");
    return 2;
  }
  Result<host::PluginRegistry> registry = host::PluginRegistry::discover_in({host::install_folder()});
  if (!registry) {
    std::fprintf(stderr, "%s\n", registry.error().message.c_str());
    return 1;
  }
  std::printf(
      "%zu stages, %lld slots\n\n| chain | budget | solver | CPU s | step | peak | how "
      "|\n|---|---|---|---|---|---|---|\n",
      stages, static_cast<long long>(slots));
  const std::vector<std::pair<std::string, Chain>> chains = {{"unlike", unlike_chain(stages)},
                                                             {"alike", alike_chain(stages)}};
  for (const std::string id : {"rotor", "chen", "dtr"}) {
    meshwright::Config config;
    if (id == "rotor") config.set("slots", slots);
    const auto solver = registry->create<CheckpointSolver>("checkpoint", id, config);
    if (!solver) {
      std::fprintf(stderr, "%s\n", solver.error().message.c_str());
      return 1;
    }
    for (const auto& [what, chain] : chains) {
      const Result<meshwright::ChainReplay> everything = meshwright::replay(chain, meshwright::keep_everything(chain));
      for (const double share : {0.05, 0.1, 0.3, 0.6, 0.9}) {
        const auto budget = static_cast<std::int64_t>(share * static_cast<double>(everything->peak_bytes));
        if (!time_solver(**solver, id, what, chain, budget, share)) return 1;
      }
    }
  }
  return 0;
}
