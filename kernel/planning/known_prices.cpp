#include "known_prices.h"

#include <algorithm>
#include <utility>

namespace meshwright {

KnownPrices::Key KnownPrices::key_of(const ConversionProblem& problem, std::vector<Layout> layouts) {
  const std::int64_t bucket = problem.packed ? std::min(problem.profile.bucket_bytes, problem.profile.parameter_bytes) : 0;
  return {problem.shape.sizes, problem.shape.paddable, problem.element_bytes, bucket, std::move(layouts)};
}

Result<ConversionPath> KnownPrices::do_find(const ConversionProblem& problem, const Layout& from, const Layout& to) const {
  Key key = key_of(problem, {from, to});
  if (const auto known = paths_.find(key); known != paths_.end()) return known->second;
  Result<ConversionPath> path = search_.find(problem, from, to);
  if (path) paths_.emplace(std::move(key), *path);
  return path;
}

Result<std::vector<PathPrice>> KnownPrices::do_price_all(const ConversionProblem& problem, std::span<const Layout> layouts) const {
  Key key = key_of(problem, {layouts.begin(), layouts.end()});
  if (const auto known = prices_.find(key); known != prices_.end()) return known->second;
  Result<std::vector<PathPrice>> prices = search_.price_all(problem, layouts);
  if (prices) prices_.emplace(std::move(key), *prices);
  return prices;
}

}  // namespace meshwright
