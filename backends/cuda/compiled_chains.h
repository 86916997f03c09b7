// The chains of a run's steps, each shape of them compiled by itself before the first step.
#pragma once

#include <vector>

#include "command.h"
#include "devices.h"

namespace meshwright::cuda {

// Gives the chains of all steps their numbers (`Launch::compiled`). Errors: the driver's.
Status compile_chains(std::vector<RankStep>& steps, Devices& devices);

}  // namespace meshwright::cuda
