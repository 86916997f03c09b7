// The units of a whole model for microbatches of one size, with the ways to split them that were looked for, over each number of devices that a stage may have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "assembled_stage.h"
#include "joint_stages.h"
#include "meshwright/model_analysis.h"
#include "model_units.h"
#include "split_ways.h"
#include "stage_line.h"
#include "step_floor.h"

namespace meshwright {

// What a joint search knows of a model whatever its microbatches.
struct JointModel {
  ModelUnits units;
  ShortModel shorter;
  std::vector<NodeId> alike_nodes;  // by node of the whole
  AlikeNames alike;

  // Errors: those of reading the units, and bad_input for the mesh.
  static Result<JointModel> make(const JointStagesRequest& request);
  // Each stage may be searched for, on all meshes.
  [[nodiscard]] bool is_small(const JointStagesRequest& request) const { return std::ssize(units.bound) <= request.most_searched_ops; }
};

class JointLine;
using JointLines = std::map<std::int64_t, std::unique_ptr<JointLine>>;  // by microbatches

class JointLine {
 public:
  // Both outlive it. Errors: those of cutting the batch and of analyze_model.
  static Result<std::unique_ptr<JointLine>> make(const JointStagesRequest& request, const JointModel& model, std::int64_t microbatches);

  [[nodiscard]] std::int64_t microbatches() const { return training_.microbatches; }
  [[nodiscard]] const StageLine& line() const { return line_; }

  // Looks for the fastest way on each mesh of these devices, once for each number of them. Not on those that must be far from the fastest one by what a line of fewer microbatches knows: the whole of a
  // batch takes no longer than all its parts one after the other. Errors: those of SplitWays::make.
  Status add_devices(const Cluster& devices, const JointLines& others);
  // On those too; true if there are any. Errors: the same.
  Result<bool> add_far_meshes(std::int64_t devices);
  // Whether there is a mesh on which nobody has looked.
  [[nodiscard]] bool has_far_meshes() const;
  // Whether there is a way over so many.
  [[nodiscard]] bool has(std::int64_t devices) const;
  // By node of the whole model what so many devices compute it in at least.
  [[nodiscard]] const std::vector<LeastComputing>& least(std::int64_t devices) const { return known_.at(devices).least; }
  // What the fastest of all ways over so many devices takes to compute a microbatch, of all units.
  [[nodiscard]] double fastest_seconds(std::int64_t devices) const;
  // The same, times the devices, of the slowest such among the numbers up to this one for which ways are known; 0 where there is none.
  [[nodiscard]] double most_device_seconds(std::int64_t most_devices) const;

  // Looks for the way that costs least with so many seconds for a byte, on each mesh of so many devices that is near the fastest one and, as far as is known, near the best one at that price; true if there is a new one.
  // Prices that are nearly alike are one. Errors: those of SplitWays::add.
  Result<bool> add_priced(std::int64_t devices, double price, double in_flight);
  // On the fastest mesh alone, for so many times the usual price.
  Status add_priced_to_fastest(std::int64_t devices, double factor, double in_flight);

  // A stage of a cut as a wish. This outlives it.
  [[nodiscard]] StageCutWish::Stage wish(const StageCost& cost) const;

 private:
  JointLine(const JointStagesRequest& request, const JointModel& model, std::int64_t microbatches);

  // A mesh, with what it takes at least: what it was found to take, or what follows from fewer microbatches.
  struct TriedMesh {
    std::vector<std::int64_t> shape;
    bool batch_first = false;
    double seconds = 0;                  // of all units; infinite: no way
    std::vector<LeastComputing> least;   // by node of the short model
    bool is_looked_at = false;
  };
  // Over one number of devices.
  struct Known {
    Cluster devices;
    std::vector<TriedMesh> tried;
    std::vector<std::size_t> meshes;     // those near the fastest one, which is the first
    std::vector<LeastComputing> least;   // by node of the whole model
    double fastest_seconds = 0;
  };
  struct SplitMesh {
    SplitWays ways;
    std::int64_t devices = 0;
    bool batch_first = false;
    std::size_t in_line = 0;  // so many of its ways are
    bool is_asked = false;    // for a way by a price
    std::unique_ptr<AssembledParts> assembled = std::make_unique<AssembledParts>();
  };

  [[nodiscard]] PlanningContext context() const;
  [[nodiscard]] std::vector<std::pair<std::vector<std::int64_t>, bool>> shapes_of(const Cluster& devices) const;
  [[nodiscard]] std::vector<TriedMesh> meshes_of(const Cluster& devices, const JointLines& others) const;
  Status look_at(TriedMesh& mesh, Known& known);
  // Brings what is known of all together up to date.
  void sum_up(Known& known) const;
  [[nodiscard]] std::vector<LeastComputing> of_whole(const std::vector<LeastComputing>& least) const;
  [[nodiscard]] double computing_seconds(const SplitMesh& mesh) const;
  void rank_meshes(Known& known) const;
  void add_ways(std::size_t mesh);
  [[nodiscard]] std::vector<std::size_t> meshes_worth_asking(const Known& known, double price, double in_flight) const;
  Result<bool> add_way(std::size_t mesh, double price, double in_flight);

  const JointStagesRequest& request_;
  const JointModel& model_;
  ModelAnalysis analysis_;  // of the short model
  TrainingSettings training_;
  FittedSolver::Lower lower_;
  std::optional<FittedSolver> solver_;
  StageLine line_;
  std::vector<SplitMesh> meshes_;
  std::vector<std::size_t> numbers_;  // by way of the line: which of its mesh
  std::map<std::int64_t, Known> known_;  // by devices
  std::set<std::tuple<std::size_t, int, double>> asked_;  // for which meshes, prices and numbers of microbatches in flight ways were looked for
};

}  // namespace meshwright
