// Embeddings: the vocabulary is a reduction factor, and may be padded.
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.embedding", nullptr};

class Embedding final : public OpFamily {
 private:
  // A look-up is a product with a one-hot matrix: a sharded vocabulary makes the result partial. Each rank looks up
  // the rows it has and puts zero for the others.
  Result<Rule> do_rule(const OpCall& call) const override {
    return parse_rule("~v d, i* -> i* d", call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule&) const override {
    OpCost cost;
    cost.gathers = true;
    return cost;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "embedding", "0.1.0", "Apache-2.0", "Row look-ups in a table", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Embedding>), destroy_plugin<OpFamily>)

}  // namespace meshwright
