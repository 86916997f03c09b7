// How one op behaves under sharding: an einsum over factors, in one line (DESIGN §2, "Sharding rules").
//
//   linear             b* k, n k, +n -> b* n       + an addend: added on one rank only where a sum is sharded
//   softmax over d     b !d -> b !d                ! must stay whole
//   fused qkv split    b (!3 d) -> b d, b d, b d   ( ) a dimension that is a product of factors, major to minor
//   cross entropy      n ^~c, n ->                 ^ the op reduces over c itself; ~ its shards may be padded
//   broadcasting       b 1, d -> b d               1 a dimension of size 1
//   experts            t h, e i h -> t h, @t i     @ the rank's own: only the op's gradient reads it, on the same rank
//
// A factor absent from the results is a reduction: sharding it makes the result partial. `b*` stands for any number of
// leading dimensions (factors b0, b1, ...). A digit alone names a factor too ("!3"), but for 1.
//
// `linear` lists groups of operands in which the op is jointly linear: {{0, 1}} for an addition, {{0}, {1}} for a
// product. A partial value may pass through a group, all its operands being partial, and a partial gradient may
// pass backward through an op that has a group.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/result.h"

namespace meshwright {

using FactorId = std::uint16_t;

struct Factor {
  std::string name;
  std::int64_t size = 1;
  bool whole = false;      // never sharded
  bool pads = false;       // correct on padded shards
  bool internal = false;   // A reduction that the op finishes by itself: the result is not partial over this factor.
};

struct TensorRule {
  std::vector<std::vector<FactorId>> dimensions;  // factors of each dimension, major to minor; none for size 1
  bool addend = false;  // Added to a sum: where the sum is sharded, one rank alone adds it.
  // Rank-private: the value differs from rank to rank, and no layout describes it. It is a result that only the gradient of the
  // same op reads, on the same rank, or the operand of that gradient. Where a factor is sharded that it does not have, it is
  // not a partial sum; after an exchange its rows stay where they were computed. The gradient is sharded as the op is.
  bool own = false;
};

// Rows along factor `from` (tokens) may be worked on where their block of factor `to` (experts) is: an axis then shards
// both, each in the tensors that have it (`to` in those that have both), and rows travel there and back. Each row goes
// to `copies` positions of `to`, which the data decides, so buffers have a fixed capacity.
struct Exchange {
  FactorId from = 0;
  FactorId to = 0;
  std::int64_t copies = 1;
  bool distinct = false;       // a row's positions of `to` differ from each other
  double capacity_factor = 0;  // rows for one device over their number under balanced load; 0: as many as there can be
  double imbalance = 1;        // seconds where `to` is sharded over those under balanced load

  // The rows that one device may send to another one: it has `rows`, and each device has `positions` of `to`, of
  // `devices` times as many in all.
  [[nodiscard]] MESHWRIGHT_API std::int64_t capacity(std::int64_t rows, std::int64_t positions, std::int64_t devices) const;
};

struct Rule {
  std::vector<Factor> factors;
  std::vector<TensorRule> operands;
  std::vector<TensorRule> results;
  std::vector<std::vector<std::uint32_t>> linear;
  // Where one of these is sharded, the ranks reduce something inside the op (a batch's statistics, the count of a mean, a maximum).
  // What they send is what OpFamily::localize emits.
  std::vector<FactorId> coupled;
  std::vector<Exchange> exchanges;

  [[nodiscard]] MESHWRIGHT_API FactorId factor(std::string_view name) const;  // asserts that it exists
  [[nodiscard]] MESHWRIGHT_API std::vector<FactorId> all_factors() const;     // the whole space that the op works through
};

// Reads the text form and takes the factors' sizes from the tensors' shapes. Errors: internal_error, since rules are
// written by op families: text that does not parse, a factor with two sizes, a rank that differs.
MESHWRIGHT_API Result<Rule> parse_rule(std::string_view text, const std::vector<TensorType>& operands,
                                       const std::vector<TensorType>& results);

MESHWRIGHT_API std::string to_string(const Rule& rule);

// Checks ids, and that the sizes agree with the shapes.
MESHWRIGHT_API Status validate(const Rule& rule, const std::vector<TensorType>& operands,
                               const std::vector<TensorType>& results);

// The rule of an op that nobody knows: every dimension whole, so it runs replicated.
MESHWRIGHT_API Rule replicated_rule(const std::vector<TensorType>& operands, const std::vector<TensorType>& results);

}  // namespace meshwright
