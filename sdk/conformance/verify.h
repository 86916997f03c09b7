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
  std::int64_t steps = 0;         // that were compared
  double loss_serial = 0;         // of the first one
  double loss_parallel = 0;
  std::int64_t bytes_sent_predicted = 0;
  std::int64_t bytes_sent_measured = 0;
  std::int64_t peak_bytes_predicted = 0;
  std::int64_t peak_bytes_measured = 0;
  std::int64_t arena_bytes = 0;   // of each rank, the optimizer's state apart
  // Of a pipeline, by group of devices: what one of them holds at most.
  struct GroupPeak {
    std::int64_t predicted = 0, measured = 0;
  };
  std::vector<GroupPeak> group_peaks;
  std::int64_t ranks = 0;
  std::int64_t tensors = 0;       // compared, on all ranks together
  std::vector<NearTies> near_ties;  // where ranks may have chosen otherwise: then the numbers differ for no fault
  std::vector<std::string> not_computed;  // ops that nobody here computes: numbers stood in for theirs (stand_ins.h)
  std::string problem;            // why not equal, where it is not for an error: a tensor that no rank holds
};

// One stage of a pipeline.
struct VerifiedStage {
  const Graph& graph;  // whose values have the names that they have in the model
  const Program& program;
};

struct VerifyInput {
  const Graph& graph;
  const Program& program;  // of that graph, finished; of a pipeline that of its first stage
  const OpTable& ops;
  const CostProfile& profile;
  const KernelTable* kernels = nullptr;
  const Backend& backend;  // runs the program
  std::map<ValueId, Tensor> sources;
  double tolerance = 1e-4;
  double floor = 1e-3;  // of parameters and outputs; of gradients, this share of the largest gradient in the model
  std::span<const std::map<ValueId, Tensor>> further = {};  // user inputs of each microbatch behind the first
  bool by_rows = false;  // an element is measured by the largest of its row, so that rows with tiny gradients count
  std::span<const StepInputs> later = {};  // of the second step and those behind it
  std::span<const VerifiedStage> stages = {};  // of a pipeline; none: `program` is that of the whole model
  GroupOrders orders = {};                     // of its devices
};

// Runs one training step both ways, and as many more as there are inputs for, in which parameters, the optimizer's state and buffers
// last: one device begins each of these with the parameters and buffers that the ranks ended the one before it with, and with
// its own optimizer's state. Compares loss and other outputs, mutated buffers, every gradient and every updated parameter of each step, on every rank.
// Adam's epsilon is a hundredth of the largest gradient, so that rounding does not decide its steps. Errors: what a run says; that
// the numbers differ is no error.
Result<Verification> verify(VerifyInput input);

}  // namespace meshwright
