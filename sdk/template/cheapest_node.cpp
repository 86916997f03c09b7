// The smallest solver: each node takes its cheapest strategy, whatever that costs on the edges. `prefer_last` shows how
// a plugin is configured, under [search.cheapest_node].
#include <algorithm>
#include <iterator>

#include "meshwright/plugin.h"
#include "meshwright/solver.h"

namespace meshwright {
namespace {

class CheapestNode final : public IntraSolver {
 public:
  explicit CheapestNode(bool prefer_last) : prefer_last_(prefer_last) {}

 private:
  // The space and the budgets are valid: the public function that calls this has checked them.
  Result<std::vector<Assignment>> do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                           const SearchLimits&) const override {
    Assignment answer;
    answer.method = "cheapest strategy of each node";
    for (const SpaceNode& node : space.nodes) {
      const auto cheapest = std::min_element(node.costs.begin(), node.costs.end());
      const auto last = std::find(node.costs.rbegin(), node.costs.rend(), *cheapest).base() - 1;
      answer.choice.push_back(static_cast<std::uint32_t>((prefer_last_ ? last : cheapest) - node.costs.begin()));
    }
    const Evaluation evaluation = evaluate(space, answer.choice);
    answer.cost = evaluation.cost;
    answer.peak_bytes = evaluation.peak_bytes;

    std::vector<Assignment> answers;
    for (const std::int64_t budget : budgets) {
      const bool fits = evaluation.allowed && evaluation.peak_bytes <= budget;
      answers.push_back(answer);
      if (!fits) answers.back().choice.clear();  // nothing was found
    }
    return answers;
  }

  bool prefer_last_;
};

constexpr meshwright_config_key_v1 kSchema[] = {
    {"prefer_last", "boolean", "", "false", "of equally cheap strategies, take the last, not the first"},
};

void* create(const Config& config, Error&) {
  return static_cast<IntraSolver*>(new CheapestNode(config.boolean("prefer_last")));
}

}  // namespace
}  // namespace meshwright

MESHWRIGHT_PLUGIN("intra", "cheapest_node", "0.1.0", "Apache-2.0", "Takes each node's cheapest strategy: an example",
                  nullptr, meshwright::kSchema, std::size(meshwright::kSchema), meshwright::create,
                  meshwright::destroy_plugin<meshwright::IntraSolver>)
