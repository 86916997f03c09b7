#include "cost/own_part.h"

#include <algorithm>
#include <cmath>

namespace meshwright {

namespace {

void take(double part, const std::vector<TensorRule>& tensors, std::vector<std::int64_t>& bytes) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].own) bytes[i] = std::llround(part * static_cast<double>(bytes[i]));
  }
}

}  // namespace

void take_own_part(const Rule& rule, CallShare& share) {
  double part = 1;
  for (const Exchange& exchange : rule.exchanges) {
    if (share.shards[exchange.to] > 1) part *= std::min(1.0, exchange.imbalance / static_cast<double>(share.shards[exchange.to]));
  }
  if (part == 1) return;
  take(part, rule.operands, share.operand_bytes);
  take(part, rule.results, share.result_bytes);
}

}  // namespace meshwright
