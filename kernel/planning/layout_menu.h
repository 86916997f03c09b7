// The layouts that Galvatron chooses from for each layer (Miao et al. 2022, "Galvatron: Efficient Transformer Training over Multiple GPUs Using Automatic Parallelism", §3.1 and 3.2), on the devices of one stage.
//
// A stage's devices are a mesh of the prime factors of their number, so that all entries of the menu are choices on one mesh and layers that follow each other can have unlike ones. In an entry the first axes, none to
// all of them, shard the batch, and over all others weights are computed with in shards: the inner, faster links are those of tensor parallelism. Over the first axes parameters are whole (data parallelism, DP), or in
// shards at rest (ZeRO-3, the paper's SDP); their Takeaway #2 is that no layer mixes both. With checkpointing (Galvatron-BMW) what the entry's layers keep runs again.
//
// Not in the menu, and in the paper's decision trees: tensor parallelism over outer links with data parallelism inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fitted_search.h"
#include "meshwright/cluster.h"
#include "meshwright/config.h"
#include "meshwright/mesh.h"
#include "meshwright/planning_context.h"
#include "meshwright/result.h"
#include "pins.h"

namespace meshwright {

struct MenuLayout {
  std::size_t data_axes = 0;  // the first ones
  bool sharded = false;       // SDP over them, else DP
  bool again = false;         // what is kept runs again

  bool operator==(const MenuLayout&) const = default;
};

// Servers' factors first, then those of the devices of a server.
std::vector<std::int64_t> menu_shape(const Cluster& stage);

// All entries on a mesh of so many axes, with what runs again and without as [search] recompute lets it.
std::vector<MenuLayout> menu_layouts(std::size_t axes, const Config& search);

// "sdp 2 x tp 4, run again"
std::string to_string(const MenuLayout& layout, const std::vector<std::int64_t>& shape);

// [search] with which all ops have the entry's strategies and no other ones.
Config search_of_layout(Config search, const MenuLayout& layout, std::size_t axes);

// Seconds of a microbatch in which `bytes` that cross from a layer to the next one, whole, and their gradient are brought from the one's layout into the other's: what a device lacks of the batch is gathered, and what
// it has too much of it leaves out (the paper's Slice-Gather).
double change_seconds(const Mesh& mesh, const MenuLayout& from, const MenuLayout& to, double bytes);

// Which layout each op has, by its name; those of ops that are not named are free.
struct LayoutRecipe {
  std::vector<std::int64_t> shape;
  std::vector<MenuLayout> layouts;
  std::map<std::string, std::size_t> layout_of;  // place in `layouts`
};

// The plan of a stage on the recipe's mesh within the budget: of each op's strategies those of its layout are left, and the exact search finds the best choice of them, with all that lies between. A value has the layout of who
// makes it, or of who reads it first. Nothing where no such choice fits. Errors: those of building, solving and lowering.
Result<std::optional<FittedPlan>> plan_by_layouts(const PlanningContext& stage, const Cluster& devices, const FittedSolver& solver, const Config& search, const std::vector<Pin>& pins, const LayoutRecipe& recipe,
                                                  std::int64_t budget);

}  // namespace meshwright
