// Miao et al. 2022, "Galvatron: Efficient Transformer Training over Multiple GPUs Using Automatic Parallelism" (VLDB): for each number of stages a dynamic program over layers, memory and the entries of a menu.
//
// The paper cuts layers into stages of as much work (Algorithm 1; Galvatron-BMW moves layers by time and by memory), and chooses for the layers of each; here cuts and entries are chosen together: what a stage takes is found
// for each first and last node (menu_table.h), and of cuts the one with the shortest step, by the longest stage that is allowed, as Alpa does. In place of the paper's parts of memory there are labels.
#pragma once

#include "meshwright/placement.h"

namespace meshwright {

class Galvatron final : public InterSolver {
  // Optimal, unless a stage has more labels than are kept, or there are more lengths of a longest stage than are tried: then heuristic, and `method` says so.
  Result<PlacementAnswer> do_solve(const PlacementProblem& problem) const override;
};

}  // namespace meshwright
