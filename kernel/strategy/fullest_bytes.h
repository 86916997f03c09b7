// What the backward of a node holds at its fullest moment besides what was kept for it. Private to the kernel.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "meshwright/backward_memory.h"
#include "meshwright/strategy.h"

namespace meshwright {

class FullestBytes {
 public:
  using Bytes = std::vector<std::int64_t>;  // by strategy of a variable

  // Both outlive this.
  FullestBytes(const ProblemInput& input, const Problem& problem) : input_(input), problem_(problem) {}

  // Variables with the same strategies and the same storages share the answer.
  Bytes of(std::uint32_t variable, const NodeBackward& backward);

 private:
  [[nodiscard]] Bytes price(std::uint32_t variable, const NodeBackward& backward) const;

  const ProblemInput& input_;
  const Problem& problem_;
  std::map<std::vector<std::int64_t>, Bytes> known_;
};

}  // namespace meshwright
