// Where the ranks of a program are, and how they take a step together: as threads of one process (run_ranks.h), or each in a process of its own (backends/mpi). All
// else that runs a program is the same for both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "meshwright/backend.h"
#include "meshwright/stages.h"
#include "stage_ranks.h"

namespace meshwright {

// Devices that have the same stages, numbered from `first` on among all.
struct DeviceGroup {
  std::int64_t first = 0;
  std::int64_t devices = 0;
  std::int64_t first_here = 0;     // of the group's, the first one that is in this process
  std::vector<DeviceBytes> here;   // of those that are in this process
};

// All stages, and the devices that they are on. A whole model is one stage.
struct Stages {
  std::vector<DeviceGroup> groups;
  std::vector<std::uint32_t> group_of;  // by stage
  JointOrder order;
  std::deque<StageRanks> ranks;         // by stage

  [[nodiscard]] std::int64_t devices() const { return groups.back().first + groups.back().devices; }
  [[nodiscard]] std::vector<const Program*> programs() const;
};

// What a device does of one stage, and where that stands in the order of all stages.
struct Turn {
  std::size_t place = 0;
  std::size_t stage = 0;
  std::size_t index = 0;  // among what a step of the stage does
};

// What the devices of a group run, one after the other.
std::vector<Turn> turns_of(const Stages& stages, std::size_t group);

// "rank 3", or "stage 1, rank 3".
std::string rank_name(const Stages& stages, std::size_t stage, std::int64_t rank);

class Runtime {
 public:
  virtual ~Runtime() = default;

  // The devices of a group that are in this process: they are `first` and as many as are held.
  virtual void place(DeviceGroup& group) = 0;
  // For the ranks of a group that is placed; empty where all of them are here.
  virtual PartsOfAll parts_of_all(const DeviceGroup& group) = 0;
  // Makes the ranks that are here.
  [[nodiscard]] virtual MakeRank make_rank() const { return {}; }

  // `inputs`: by stage and input of its program. `observers`: by stage.
  virtual Result<Report> run(Stages& stages, const std::vector<std::vector<const Tensor*>>& inputs, const std::vector<RunObserver*>& observers) = 0;
  // What became of this process' ranks behind a step, which the others do not know.
  virtual Status ended(const Status& status) { return status; }

  // On all processes alike, each of which calls it: what those with ranks of this group have found.
  virtual Result<Tensor> told(const DeviceGroup& group, Result<Tensor> found) = 0;
  // Likewise the largest number that any of them has.
  virtual std::int64_t largest(std::int64_t number) = 0;
};

std::unique_ptr<Executable> compile_on(std::unique_ptr<Runtime> runtime, const BackendInput& input);
// Errors: those of joint_order; bad_input for stages that share devices and have other numbers of them.
Result<std::unique_ptr<StagesExecutable>> compile_on(std::unique_ptr<Runtime> runtime, const std::vector<BackendInput>& stages, const GroupOrders& orders);

}  // namespace meshwright
