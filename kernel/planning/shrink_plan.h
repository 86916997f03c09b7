// A plan of a model that is too large to be tried, as one of a small model of the same kind (decision 055): few of its blocks, narrow dimensions, and of the
// plan every layout, stage, schedule, microbatch and all that runs again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/conversion.h"
#include "meshwright/cost.h"
#include "meshwright/op.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "meshwright/result.h"
#include "shrink_blocks.h"

namespace meshwright {

// What became smaller, and what did not.
struct Shrinkage {
  std::vector<std::string> blocks, kept_blocks;
  std::vector<FewBlocks::Stays> blocks_that_stay;  // though others are like them
  struct Size {
    std::string place;  // "dimension 1 of 'tokens'"
    std::int64_t before = 0, after = 0;
  };
  std::vector<Size> sizes;
  struct HeldSize {
    std::string place;
    std::int64_t size = 0;
    std::string why;
  };
  std::vector<HeldSize> held;  // sizes of more than 8 that did not become smaller
  std::int64_t parameters_before = 0, parameters_after = 0;  // elements, all together
  std::int64_t wide_parameters = 1;                          // of the few blocks, with the sizes that they had

  // So many bytes as hold as many of the smaller parameters as `bytes` held of the wide ones: buckets go on being filled by as few.
  [[nodiscard]] std::int64_t narrowed(std::int64_t bytes) const;
};

struct ShrunkPlan {
  Plan plan;
  Shrinkage shrinkage;
};

struct ShrunkPipeline {
  PipelinePlan plan;
  Shrinkage shrinkage;
};

// What it refers to outlives the call.
struct ShrinkTools {
  const OpTable& ops;
  const CostProfile& profile;
  const ConversionSearch& conversions;
};

// Errors: bad_input that names the node or value to which the plan's choice cannot be carried (carry_plan.h).
Result<ShrunkPlan> shrink_plan(const Plan& plan, const ShrinkTools& tools);
// Of all stages together: a size is the same in all of them, and each keeps at least what is of one kind in it.
Result<ShrunkPipeline> shrink_pipeline(const PipelinePlan& plan, const ShrinkTools& tools);

}  // namespace meshwright
