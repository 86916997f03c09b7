#include "placed_menus.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "split_ways.h"
#include "stage_devices.h"

namespace meshwright {

namespace {

class LayoutMeter {
 public:
  LayoutMeter(const PlacedWaysRequest& request, const ShortModel& model, const ModelAnalysis& analysis) : request_(request), model_(model), analysis_(analysis), training_(request.context.training) {
    training_.order = measured_order(training_.microbatches);
  }

  // Nothing where no number of devices is each stage's, or no entry has a strategy for each op.
  [[nodiscard]] Result<std::optional<MeasuredMenu>> measure(std::uint32_t stages) const {
    const Result<StageDevices> devices = StageDevices::even(request_.cluster, stages);
    if (!devices) return std::optional<MeasuredMenu>();
    MeasuredMenu menu{stages, devices->cluster(0), menu_shape(devices->cluster(0)), {}, {}};
    if (menu.shape.empty()) menu.shape = {1};
    Result<Mesh> mesh = make_mesh(menu.devices, menu.shape);
    if (!mesh) return mesh.error();
    menu.mesh = std::move(*mesh);
    for (const MenuLayout& layout : menu_layouts(menu.mesh.rank(), request_.search)) {
      Result<std::optional<MeasuredLayout>> measured = measure(menu, layout);
      if (!measured) return measured.error();
      if (*measured) menu.layouts.push_back(std::move(**measured));
    }
    return menu.layouts.empty() ? std::optional<MeasuredMenu>() : std::optional(std::move(menu));
  }

 private:
  [[nodiscard]] Result<std::optional<MeasuredLayout>> measure(const MeasuredMenu& menu, const MenuLayout& layout) const {
    const Config search = search_of_layout(request_.search, layout, menu.mesh.rank());
    const std::vector<Pin> pins;
    const PlanningContext context{analysis_, training_, request_.context.ops, request_.context.profile, request_.context.conversions};
    const FittedSolver::Lower lower = [&](const Plan& plan) { return request_.lower(plan, context); };
    const FittedSolver solver = fitted_solver(request_.solver, search, lower, {});
    const SplitRequest split{context, model_.units, search, pins, solver, lower, false};
    const Result<std::optional<SplitWays>> ways = SplitWays::make(split, menu.devices, menu.shape, false);
    if (!ways) return ways.error();
    if (!*ways) return std::optional<MeasuredLayout>();
    return std::optional(MeasuredLayout{layout, (*ways)->ways().front().by_kind});
  }

  const PlacedWaysRequest& request_;
  const ShortModel& model_;
  const ModelAnalysis& analysis_;
  TrainingSettings training_;
};

const MeasuredMenu& menu_for(const std::vector<MeasuredMenu>& menus, const PlacementAnswer& answer) { return *std::ranges::find(menus, static_cast<std::uint32_t>(answer.stages.size()), &MeasuredMenu::stages); }

LayoutRecipe recipe_of(const Graph& graph, const ModelUnits& units, const MeasuredMenu& menu, const PlacementAnswer& answer) {
  LayoutRecipe recipe{menu.shape, {}, {}};
  for (const MeasuredLayout& measured : menu.layouts) recipe.layouts.push_back(measured.layout);
  std::vector<std::size_t> layout_of(units.units.size(), 0);
  for (const PlacementStage& stage : answer.stages) {
    for (std::size_t i = 0; i < stage.nodes.size(); ++i) layout_of[stage.nodes[i]] = stage.variants[i];
  }
  const std::vector<std::uint32_t> unit_of = unit_of_nodes(graph, units);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) recipe.layout_of.emplace(graph.nodes[id].name, layout_of[unit_of[id]]);
  return recipe;
}

}  // namespace

Result<std::vector<MeasuredMenu>> measured_menus(const PlacedWaysRequest& request, const ModelUnits& units) {
  const Result<ShortModel> model = short_model(request.context, units);
  if (!model) return model.error();
  const Result<ModelAnalysis> analysis = analyze_model(model->graph, request.context.ops);
  if (!analysis) return analysis.error();
  if (!analysis->backward) return analysis->no_backward;
  const LayoutMeter meter(request, *model, *analysis);
  std::vector<MeasuredMenu> menus;
  const std::int64_t devices = request.cluster.devices();
  for (std::int64_t stages = 1; stages <= std::min(devices, std::ssize(units.units)); ++stages) {
    if (devices % stages != 0) continue;
    Result<std::optional<MeasuredMenu>> menu = meter.measure(static_cast<std::uint32_t>(stages));
    if (!menu) return menu.error();
    if (*menu) menus.push_back(std::move(**menu));
  }
  if (menus.empty()) return bad_input("no entry of Galvatron's menu has a strategy for each op of the model, with any number of stages; joint and grid find layouts of what there is");
  return menus;
}

MenuProblem menu_problem(const PlacedLine& line, const std::vector<MeasuredMenu>& menus, std::uint32_t microbatches, double device_bytes) {
  MenuProblem problem;
  problem.devices = line.devices;
  problem.microbatches = microbatches;
  problem.device_bytes = device_bytes;
  const std::vector<ModelUnit>& units = line.units.units;
  for (std::size_t u = 0; u < units.size(); ++u) problem.nodes.push_back({"unit " + std::to_string(u), line.latency_seconds + static_cast<double>(units[u].crossing_bytes) / line.bytes_per_second});
  for (const MeasuredMenu& measured : menus) {
    Menu& menu = problem.menus.emplace_back();
    menu.stages = measured.stages;
    for (const MeasuredLayout& layout : measured.layouts) {
      MenuEntry& entry = menu.entries.emplace_back(MenuEntry{to_string(layout.layout, measured.shape), {}});
      for (const ModelUnit& unit : units) entry.nodes.push_back(step_cost(layout.by_kind[unit.kind]));
    }
    for (std::size_t u = 0; u + 1 < units.size(); ++u) {
      for (const MeasuredLayout& from : measured.layouts) {
        for (const MeasuredLayout& to : measured.layouts) menu.change_seconds.push_back(change_seconds(measured.mesh, from.layout, to.layout, static_cast<double>(units[u].crossing_bytes)));
      }
    }
  }
  return problem;
}

StageCutWish menu_wish(const Graph& graph, const ModelUnits& units, const std::vector<MeasuredMenu>& menus, const PlacementAnswer& answer, const Config& search, const std::vector<Pin>& pins) {
  const MeasuredMenu& menu = menu_for(menus, answer);
  const auto recipe = std::make_shared<const LayoutRecipe>(recipe_of(graph, units, menu, answer));
  StageCutWish wish = placed_wish(units, answer);
  for (StageCutWish::Stage& stage : wish.stages) {
    stage.mesh = to_string(menu.mesh);
    stage.batch_first = false;
    stage.searched = false;
    stage.assemble = [recipe, devices = menu.devices, &search, &pins](const PlanningContext& context, const FittedSolver& solver, std::int64_t budget) {
      return plan_by_layouts(context, devices, solver, search, pins, *recipe, budget);
    };
  }
  return wish;
}

std::string layouts_text(const std::vector<MeasuredMenu>& menus, const PlacementAnswer& answer) {
  const MeasuredMenu& menu = menu_for(menus, answer);
  std::vector<std::size_t> counts(menu.layouts.size(), 0);
  for (const PlacementStage& stage : answer.stages) {
    for (const std::uint32_t entry : stage.variants) ++counts[entry];
  }
  std::string text;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) text += (text.empty() ? "" : ", ") + to_string(menu.layouts[i].layout, menu.shape) + " for " + std::to_string(counts[i]) + (counts[i] == 1 ? " part" : " parts");
  }
  return text;
}

}  // namespace meshwright
