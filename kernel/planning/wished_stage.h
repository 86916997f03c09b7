// The plan of one stage as somebody asks for it (stage_cut_wish.h).
#pragma once

#include "meshwright/result.h"
#include "planner.h"
#include "stage_cut_wish.h"

namespace meshwright {

// On the mesh that is wished, whatever the request says of that: what can be assembled, or what rank_plans finds, whichever has the shorter step. Errors: those of rank_plans and of the assembler.
Result<PlanRanking> rank_wished(const PlanRequest& request, const StageCutWish::Stage& wish);

}  // namespace meshwright
