// Values to run a model with: what its file holds, and for the rest numbers drawn from the value's name, so that the
// same model gets the same numbers on every machine.
#pragma once

#include <map>
#include <string>

#include "meshwright/graph.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"

namespace meshwright {

// One tensor for each source. `given`, by the value's name, goes before what is drawn. Integers are drawn below what
// indexes with them: the rows of a table that they reach, the classes of a loss (some are its `ignore_index`). Other
// integers and booleans are taken for masks: seven of eight are 1, the rest 0. Errors: bad_input for a type that the CPU does not compute in, or a given tensor of another type.
Result<std::map<ValueId, Tensor>> sample_sources(const Graph& graph, const std::map<std::string, Tensor>& given,
                                                 std::uint64_t seed);

// What the integers of a source index: the rows of a table that they reach, the classes of a loss; 0: nothing.
std::int64_t index_limit(const Graph& graph, ValueId source);

// The user inputs of each microbatch behind the first, drawn likewise.
Result<std::vector<std::map<ValueId, Tensor>>> sample_microbatches(const Graph& graph, const std::map<std::string, Tensor>& given,
                                                                   std::int64_t microbatches);

// The user inputs of all microbatches of a step, counted from 0. With seed 0 they are those of the functions above and below.
Result<std::vector<std::map<ValueId, Tensor>>> sample_step(const Graph& graph, const std::map<std::string, Tensor>& given, std::int64_t microbatches, std::int64_t step,
                                                           std::uint32_t seed = 0);
// The seed of `sample_sources` that goes with it.
constexpr std::uint64_t sources_seed(std::uint32_t seed) { return std::uint64_t{seed} << 32U; }

// The user inputs of all microbatches of each step behind the first.
Result<std::vector<std::vector<std::map<ValueId, Tensor>>>> sample_steps(const Graph& graph, const std::map<std::string, Tensor>& given,
                                                                         std::int64_t microbatches, std::int64_t steps);

}  // namespace meshwright
