// Through which strides the result of a view op is seen. It asks the op's family what the op means, on numbers that say
// where each element comes from, so that there is no second list of what views mean; and remembers, since layers,
// microbatches and ranks are alike.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "meshwright/op.h"
#include "seen.h"

namespace meshwright::cuda {

// Used by one thread at a time.
class ViewFinder {
 public:
  explicit ViewFinder(const OpTable& ops) : ops_(ops) {}

  // The result of an op whose results are views of operand 0 (Compute::alias), through the operand's own strides.
  // Nothing: there are no strides that would do. Errors: the family's.
  Result<std::optional<Seen>> find(const Seen& operand, const OpCall& call, std::size_t result);

 private:
  // The op, what it is asked, and how its operand lies; which result.
  using Question = std::tuple<std::string, Attributes, std::vector<std::int64_t>, std::vector<std::int64_t>,
                              std::vector<std::int64_t>, std::size_t>;
  struct Answer {
    std::int64_t first = 0;  // the element of the operand with which it begins
    std::vector<std::int64_t> strides;
  };

  [[nodiscard]] Result<std::optional<Answer>> ask(const Seen& operand, const OpCall& call, std::size_t result) const;

  const OpTable& ops_;
  std::map<Question, std::optional<Answer>> answers_;
};

}  // namespace meshwright::cuda
