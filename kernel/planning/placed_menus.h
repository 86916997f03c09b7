// A model on a cluster as Galvatron's problem (MenuProblem in placement.h), and an answer as a cut of the model into stages with a layout for each unit (layout_menu.h).
//
// Nodes are the units of the model (model_units.h). What a unit takes in an entry of the menu is measured (unit_costs.h) in a plan of few of the model's layers all of which have that layout, found by the exact search; what
// crosses from a unit to the next one is all that is paid for where their layouts differ (change_seconds).
#pragma once

#include <cstdint>
#include <vector>

#include "layout_menu.h"
#include "meshwright/placement.h"
#include "placed_stages.h"

namespace meshwright {

struct MeasuredLayout {
  MenuLayout layout;
  std::vector<UnitCost> by_kind;  // of units
};

// What the units of a stage can choose from where there are so many stages.
struct MeasuredMenu {
  std::uint32_t stages = 1;
  Cluster devices;  // of one stage
  std::vector<std::int64_t> shape;
  Mesh mesh;
  std::vector<MeasuredLayout> layouts;  // at least one
};

// For each number of stages that divides the devices, at most as many as units. An entry that some op has no strategy for is left out, and so is a number of stages without entries. Errors: those of short_model and
// SplitWays::make; bad_input where nothing is left.
Result<std::vector<MeasuredMenu>> measured_menus(const PlacedWaysRequest& request, const ModelUnits& units);

MenuProblem menu_problem(const PlacedLine& line, const std::vector<MeasuredMenu>& menus, std::uint32_t microbatches, double device_bytes);

// The answer's stages, each put together of its units' layouts and not searched for otherwise. `graph`: of the whole model. Search and pins outlive the wish.
StageCutWish menu_wish(const Graph& graph, const ModelUnits& units, const std::vector<MeasuredMenu>& menus, const PlacementAnswer& answer, const Config& search, const std::vector<Pin>& pins);

// "dp 2 x tp 4 for 3 parts, sdp 8 for 5", of all stages.
std::string layouts_text(const std::vector<MeasuredMenu>& menus, const PlacementAnswer& answer);

}  // namespace meshwright
