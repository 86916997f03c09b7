// Executes a finished program on as many ranks as its mesh has, as threads of this process (docs/backends.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "meshwright/backend.h"
#include "rank.h"

namespace meshwright {

struct RunOptions {
  // A seed: a whole value that becomes partial is scattered at random instead of staying with one rank, so that an op
  // that takes partial values but is not linear is found out.
  std::optional<std::uint64_t> scatter_partials;
  // For tests: what is on the communication stream is done as late as the program allows, when something waits for it; so that a wait that is missing is found out.
  bool communicates_late = false;
  // For tests: what each rank executes, as indices into its occurrences; all of them where it is empty.
  std::vector<std::vector<std::size_t>> instructions;
  // Of ranks that are not executed in this process' memory (rank.h).
  MakeRank make_rank = {};
};

// A step reports ranks, bytes_sent, peak_bytes and peak_instruction. Errors of a step: the first failure in program order, of the
// lowest rank, which it names; a collective that not all ranks of its group entered, naming those that didn't.
std::unique_ptr<Executable> compile_ranks(const BackendInput& input, const RunOptions& options = {});

// The ranks of all stages of a pipeline; those of stages that share devices are the same, and run them in turn. Errors: those of joint_order.
Result<std::unique_ptr<StagesExecutable>> compile_stage_ranks(const std::vector<BackendInput>& stages, const GroupOrders& orders = {}, const RunOptions& options = {});

}  // namespace meshwright
