// Prices of conversions on one mesh, of one device, each class of values with the same layouts looked for once: problems of stages that are alike ask for the same ones.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "meshwright/conversion.h"
#include "meshwright/planning_context.h"

namespace meshwright {

// All problems that it is asked about are of the same mesh and of profiles that differ in nothing but what parameters have together. `search` outlives it. Not for several threads.
class KnownPrices final : public ConversionSearch {
 public:
  explicit KnownPrices(const ConversionSearch& search) : search_(search) {}

 private:
  // Sizes and paddable axes, bytes of an element, of a bucket that it is packed into (0: it is not), layouts.
  using Key = std::tuple<std::vector<std::int64_t>, std::vector<bool>, std::int64_t, std::int64_t, std::vector<Layout>>;

  Result<ConversionPath> do_find(const ConversionProblem& problem, const Layout& from, const Layout& to) const override { return search_.find(problem, from, to); }
  Result<std::vector<PathPrice>> do_price_all(const ConversionProblem& problem, std::span<const Layout> layouts) const override;

  const ConversionSearch& search_;
  mutable std::map<Key, std::vector<PathPrice>> known_;
};

// The same with these prices.
inline PlanningContext with_prices(const PlanningContext& context, const ConversionSearch& prices) { return {context.model, context.training, context.ops, context.profile, prices, context.part}; }

}  // namespace meshwright
