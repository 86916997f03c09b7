#include "known_prices.h"

#include <algorithm>
#include <utility>

namespace meshwright {

Result<std::vector<PathPrice>> KnownPrices::do_price_all(const ConversionProblem& problem, std::span<const Layout> layouts) const {
  const std::int64_t bucket = problem.packed ? std::min(problem.profile.bucket_bytes, problem.profile.parameter_bytes) : 0;
  Key key{problem.shape.sizes, problem.shape.paddable, problem.element_bytes, bucket, {layouts.begin(), layouts.end()}};
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  Result<std::vector<PathPrice>> prices = search_.price_all(problem, layouts);
  if (prices) known_.emplace(std::move(key), *prices);
  return prices;
}

}  // namespace meshwright
