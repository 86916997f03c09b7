#include "shrink_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "cut_model.h"
#include "meshwright/carry_plan.h"
#include "meshwright/resize.h"
#include "shrink_sizes.h"

namespace meshwright {

namespace {

std::int64_t parameter_elements(const Graph& graph) {
  std::int64_t elements = 0;
  for (const Source& source : graph.sources) elements += source.kind == SourceKind::parameter ? graph.type(source.value).elements() : 0;
  return elements;
}

// The plans of a model's stages, or of all of it, carried from model to model.
class Shrinker {
 public:
  Shrinker(const ModelAnalysis& model, std::vector<Plan> stages, const ShrinkTools& tools) : tools_(tools), model_(model), stages_(std::move(stages)) {
    made_.parameters_before = parameter_elements(*model.graph);
  }

  Status run() {
    FewBlocks few = with_few_blocks(*model_.graph, pointers());
    made_.blocks = std::move(few.blocks);
    made_.kept_blocks = std::move(few.kept);
    made_.blocks_that_stay = std::move(few.stays);
    if (Status status = carry(std::move(few.graph), few.places); !status) return add_context("with few of its blocks", status.error());
    made_.wide_parameters = parameter_elements(*model_.graph);
    const SizeClasses classes = size_classes(*model_.graph, *model_.atoms);
    const SmallSizes small = small_sizes(*model_.graph, *model_.atoms, classes, pointers());
    Result<Resized> resized = resize(*model_.graph, *model_.atoms, classes, tools_.ops, small.sizes);
    if (!resized) return add_context("with smaller sizes", resized.error());
    note(classes, small, *resized);
    if (Status status = carry(std::move(resized->graph), {}); !status) return add_context("with smaller sizes", status.error());
    made_.parameters_after = parameter_elements(*model_.graph);
    for (Plan& plan : stages_) {
      plan.bucket_bytes = made_.narrowed(plan.bucket_bytes);
      plan.room_bytes = made_.narrowed(plan.room_bytes);
    }
    return Done{};
  }

  ModelAnalysis model() && { return std::move(model_); }
  std::vector<Plan> stages() && { return std::move(stages_); }
  CutModel cut() && { return std::move(cut_); }
  Shrinkage shrinkage() && { return std::move(made_); }

 private:
  [[nodiscard]] std::vector<const Plan*> pointers() const {
    std::vector<const Plan*> all;
    for (const Plan& plan : stages_) all.push_back(&plan);
    return all;
  }

  Status carry(Graph graph, const TakenPlaces& places) {
    Result<ModelAnalysis> whole = analyze_model(std::move(graph), tools_.ops);
    if (!whole) return whole.error();
    if (stages_.size() == 1) {
      Result<Plan> plan = carry_plan(stages_.front(), *whole, places, tools_.profile, tools_.conversions);
      if (!plan) return plan.error();
      stages_.front() = std::move(*plan);
    } else if (Status status = carry_stages(*whole, places); !status) {
      return status;
    }
    model_ = std::move(*whole);
    return Done{};
  }

  Status carry_stages(const ModelAnalysis& whole, const TakenPlaces& places) {
    const std::map<std::string, std::uint32_t> stage_of_name = stages_by_node(stages_);
    std::vector<std::uint32_t> stage_of;
    for (const Node& node : whole.graph->nodes) {
      const auto found = stage_of_name.find(node.name);
      stage_of.push_back(found == stage_of_name.end() ? 0 : found->second);
    }
    Result<CutModel> cut = cut_model(*whole.graph, stage_of, static_cast<std::uint32_t>(stages_.size()));
    if (!cut) return cut.error();
    find_batches(whole, cut->boundaries);
    for (Plan& plan : stages_) {
      const std::uint32_t stage = plan.part.stage;
      const std::string where = "stage " + std::to_string(stage);
      Result<ModelAnalysis> model = analyze_model(cut->graphs[stage], tools_.ops);
      if (!model) return add_context(where, model.error());
      Result<Plan> carried = carry_plan(plan, std::move(*model), places, tools_.profile, tools_.conversions);
      if (!carried) return add_context(where, carried.error());
      plan = std::move(*carried);
      plan.part = cut->part_of(stage);
    }
    cut_ = std::move(*cut);
    return Done{};
  }

  void note(const SizeClasses& classes, const SmallSizes& small, const Resized& resized) {
    std::map<std::uint32_t, std::string> held = small.held;
    held.insert(resized.held.begin(), resized.held.end());
    for (const auto& [each, size] : classes.sizes) {
      const auto wanted = small.sizes.find(each);
      const auto why = held.find(each);
      if (wanted == small.sizes.end() && why == held.end()) continue;
      const std::string place = place_of_class(*model_.graph, *model_.atoms, classes, each);
      if (why != held.end()) made_.held.push_back({place, size, why->second});
      else made_.sizes.push_back({place, size, wanted->second});
    }
    std::ranges::stable_sort(made_.sizes, std::greater<>(), &Shrinkage::Size::before);
    std::ranges::stable_sort(made_.held, std::greater<>(), &Shrinkage::HeldSize::size);
  }

  const ShrinkTools& tools_;
  ModelAnalysis model_;
  std::vector<Plan> stages_;
  CutModel cut_;
  Shrinkage made_;
};

}  // namespace

std::int64_t Shrinkage::narrowed(std::int64_t bytes) const {
  const double share = static_cast<double>(parameters_after) / static_cast<double>(std::max<std::int64_t>(1, wide_parameters));
  return std::max<std::int64_t>(bytes > 0 ? 1 : 0, static_cast<std::int64_t>(static_cast<double>(bytes) * share));
}

Result<ShrunkPlan> shrink_plan(const Plan& plan, const ShrinkTools& tools) {
  Shrinker shrinker(plan.model, {plan}, tools);
  if (Status status = shrinker.run(); !status) return add_context("the plan cannot be shrunk", status.error());
  return ShrunkPlan{std::move(std::move(shrinker).stages().front()), std::move(shrinker).shrinkage()};
}

Result<ShrunkPipeline> shrink_pipeline(const PipelinePlan& plan, const ShrinkTools& tools) {
  Shrinker shrinker(plan.model, plan.stages, tools);
  if (Status status = shrinker.run(); !status) return add_context("the plan cannot be shrunk", status.error());
  ShrunkPipeline made{plan, {}};
  CutModel cut = std::move(shrinker).cut();
  made.plan.boundaries = std::move(cut.boundaries);
  made.plan.shared = std::move(cut.shared);
  made.plan.model = std::move(shrinker).model();
  made.plan.stages = std::move(shrinker).stages();
  made.shrinkage = std::move(shrinker).shrinkage();
  return made;
}

}  // namespace meshwright
