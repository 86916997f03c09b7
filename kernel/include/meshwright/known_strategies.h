// Strategies of ops that were priced before, for the many problems of a search that differ in little: which ops they have (the stages of a pipeline, the same blocks), and which of these run again.
#pragma once

#include <memory>

#include "meshwright/export.h"
#include "meshwright/strategy.h"

namespace meshwright {

// What ops' strategies depend on besides is the same in all problems that are built with it: the mesh, the filter, the device, the kernels of ops and conversions, the training but for the order of microbatches.
// Not for several threads.
class KnownStrategies {
 public:
  MESHWRIGHT_API KnownStrategies();
  MESHWRIGHT_API ~KnownStrategies();
  KnownStrategies(const KnownStrategies&) = delete;
  KnownStrategies& operator=(const KnownStrategies&) = delete;

 private:
  friend class ProblemBuilder;
  struct Sets;
  std::unique_ptr<Sets> sets_;
};

// The problem that build_problem(input) builds, sooner where `known` has its ops' strategies; it learns the others. Errors: the same.
MESHWRIGHT_API Result<Problem> build_problem(const ProblemInput& input, KnownStrategies& known);

}  // namespace meshwright
