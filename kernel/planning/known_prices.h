// Conversions on one mesh of one device: prices between the same layouts of one class of values, and paths, are looked for once. Problems of stages that are alike ask for the same ones.
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
  static Key key_of(const ConversionProblem& problem, std::vector<Layout> layouts);

  Result<ConversionPath> do_find(const ConversionProblem& problem, const Layout& from, const Layout& to) const override;
  Result<std::vector<PathPrice>> do_price_all(const ConversionProblem& problem, std::span<const Layout> layouts) const override;

  const ConversionSearch& search_;
  mutable std::map<Key, std::vector<PathPrice>> prices_;
  mutable std::map<Key, ConversionPath> paths_;
};

// The same with these prices.
inline PlanningContext with_prices(const PlanningContext& context, const ConversionSearch& prices) { return {context.model, context.training, context.ops, context.profile, prices, context.part}; }

}  // namespace meshwright
