// Holds a program on many ranks against one device.
#pragma once

#include <map>
#include <string>

#include "meshwright/backend.h"
#include "meshwright/graph.h"
#include "meshwright/program.h"
#include "serial.h"

namespace meshwright {

struct Verification {
  bool equal = false;
  double max_relative_error = 0;  // |Δ| / max(max|t|, floor), the largest over all elements of all tensors and ranks; t: the
                                  // tensor, or the row in which the element stands
  std::string worst_tensor;       // "gradient of transformer.wte.weight"
  std::int64_t worst_rank = 0;
  double loss_serial = 0;
  double loss_parallel = 0;
  std::int64_t bytes_sent_predicted = 0;
  std::int64_t bytes_sent_measured = 0;
  std::int64_t peak_bytes_predicted = 0;
  std::int64_t peak_bytes_measured = 0;
  std::int64_t ranks = 0;
  std::int64_t tensors = 0;       // compared, on all ranks together
  std::vector<NearTies> near_ties;  // where ranks may have chosen otherwise: then the numbers differ for no fault
  std::vector<std::string> not_computed;  // ops that nobody here computes: numbers stood in for theirs (stand_ins.h)
  std::string problem;            // why not equal, where it is not for an error: a tensor that no rank holds
};

struct VerifyInput {
  const Graph& graph;
  const Program& program;  // of that graph, finished
  const OpTable& ops;
  const CostProfile& profile;
  const KernelTable* kernels = nullptr;
  const Backend& backend;  // runs the program
  const std::map<ValueId, Tensor>& sources;
  double tolerance = 1e-4;
  double floor = 1e-3;  // of parameters and outputs; of gradients, this share of the largest gradient in the model
  std::span<const std::map<ValueId, Tensor>> further = {};  // user inputs of each microbatch behind the first
  bool by_rows = false;  // an element is measured by the largest of its row, so that rows with tiny gradients count
};

// Runs one training step both ways and compares loss and other outputs, mutated buffers, every gradient and every
// updated parameter, on every rank. Errors: what a run says; that the numbers differ is no error.
Result<Verification> verify(const VerifyInput& input);

}  // namespace meshwright
