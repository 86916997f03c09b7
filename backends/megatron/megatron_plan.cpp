#include "megatron_plan.h"

#include <algorithm>
#include <numeric>

namespace meshwright::megatron {

namespace {

using framework::Again;
using framework::FrameworkPlan;
using framework::Layer;
using framework::LayerPart;
using framework::PlanReading;

constexpr const char* kName = "Megatron-LM";

// 1F1B, or interleaved where a group of devices has several parts of the model (megatron/core/pipeline_parallel/schedules.py).
void take_schedule(const PlanReading& plan, FrameworkPlan& made) {
  if (made.pp == 1) return;
  const std::int64_t microbatches = plan.training.microbatches;
  if (made.chunks > 1 && microbatches % made.pp != 0) {
    made.notes.push_back("Interleaving wants a number of microbatches that pp " + std::to_string(made.pp) + " divides, and there are " + std::to_string(microbatches) + ": each group of devices has one part of the model here.");
    framework::merge_chunks(made);
  }
  const std::string wanted = made.chunks > 1 ? "interleaved" : "one_f_one_b";
  if (made.schedule != wanted) made.notes.push_back("Megatron-LM has no schedule like '" + made.schedule + "' of the plan; here it is " + (made.chunks > 1 ? "interleaved 1F1B." : "1F1B."));
  made.schedule = wanted;
}

// Which parts most of the layers that run anything again run again.
std::vector<LayerPart> parts_again(const std::vector<Layer>& layers) {
  std::vector<LayerPart> parts;
  for (const LayerPart part : {LayerPart::attention, LayerPart::norm, LayerPart::mlp, LayerPart::experts}) {
    std::int64_t having = 0, again = 0;
    for (const Layer& layer : layers) {
      having += layer.any_again() && !layer.part(part).ops.empty() ? 1 : 0;
      again += layer.part(part).runs_again ? 1 : 0;
    }
    if (2 * again > having) parts.push_back(part);
  }
  return parts;
}

// Whole layers (full, of all or of so many in each part of the model), or modules of all layers (selective).
void take_again(const PlanReading& plan, FrameworkPlan& made) {
  const std::vector<Layer>& layers = plan.layers.layers;
  const auto whole = std::ranges::count_if(layers, &Layer::all_again), any = std::ranges::count_if(layers, &Layer::any_again);
  if (any > 0 && 2 * whole >= any) {
    made.again = Again::layers;
    const auto parts = static_cast<std::int64_t>(made.layers.size()), all = static_cast<std::int64_t>(layers.size());
    if (whole < all) {
      made.again_layers = std::max<std::int64_t>(1, (whole + parts / 2) / parts);
      if (made.again_layers >= *std::ranges::max_element(made.layers)) made.again_layers = 0;
    }
    const std::int64_t here = made.again_layers == 0 ? all : std::accumulate(made.layers.begin(), made.layers.end(), std::int64_t{0}, [&](std::int64_t sum, std::int64_t in_part) { return sum + std::min(in_part, made.again_layers); });
    if (here != whole || whole != any) {
      made.notes.push_back("The plan runs " + std::to_string(whole) + " of " + std::to_string(all) + " layers again" + (any > whole ? ", and some of the ops of " + std::to_string(any - whole) + " others" : "") + "; here it is " + std::to_string(here) + ": as many in each part of the model.");
    }
  } else if (any > 0) {
    made.parts = parts_again(layers);
    made.again = made.parts.empty() ? Again::none : Again::parts;
    if (whole > 0 || any < static_cast<std::int64_t>(layers.size())) {
      made.notes.push_back("The plan runs something of " + std::to_string(any) + " of " + std::to_string(layers.size()) + " layers again" + (whole > 0 ? ", of " + std::to_string(whole) + " all" : "") + "; Megatron-LM's modules are those of every layer.");
    }
  }
  framework::note_again(plan, made, kName);
}

// Its FSDP drops what it gathered after each module's forward, and gathers it again for the backward.
void take_sharding(FrameworkPlan& made) {
  if (made.zero != ZeroStage::value || made.regather) return;
  made.notes.emplace_back("The plan keeps the values that it gathered until the backward; Megatron-LM's FSDP gathers them again.");
  made.regather = true;
}

std::string module_of(LayerPart part) {
  switch (part) {
    case LayerPart::attention: return "core_attn";
    case LayerPart::norm: return "layernorm";
    case LayerPart::mlp: return "mlp";
    case LayerPart::experts: return "moe";
    case LayerPart::other: break;
  }
  return "";
}

std::string flag(const std::string& name, std::int64_t value) { return "--" + name + " " + std::to_string(value); }

void add_pipeline(const FrameworkPlan& made, std::vector<Argument>& arguments) {
  if (made.pp == 1) return;
  const bool is_even = made.is_even();
  if (!is_even) {
    arguments.push_back({"--pipeline-model-parallel-layout '" + layout_text(made.layers) + "'", "layers of the stages along the model: " + framework::numbers_text(made.layers)});
  } else if (made.chunks > 1) {
    arguments.push_back({flag("num-virtual-stages-per-pipeline-rank", made.chunks), std::to_string(made.layers.front()) + " layers in each"});
  }
}

void add_zero(const FrameworkPlan& made, std::vector<Argument>& arguments) {
  const std::int64_t all = made.dp * made.cp;
  if (all == 1) return;
  const std::string over = made.zero_degree < all ? " over " + std::to_string(made.zero_degree) + " of " + std::to_string(all) + " devices" : "";
  switch (made.zero) {
    case ZeroStage::none:
      break;
    case ZeroStage::optimizer:
      arguments.push_back({"--use-distributed-optimizer", "ZeRO-1: the optimizer's state is sharded" + over});
      break;
    case ZeroStage::gradient:
    case ZeroStage::value: {
      const bool values = made.zero == ZeroStage::value;
      arguments.push_back({"--use-distributed-optimizer", ""});
      arguments.push_back({"--use-megatron-fsdp", ""});
      arguments.push_back({std::string("--data-parallel-sharding-strategy ") + (values ? "optim_grads_params" : "optim_grads"), (values ? "ZeRO-3: values too are sharded" : "ZeRO-2: gradients too are sharded") + over});
      arguments.push_back({"--no-gradient-accumulation-fusion", ""});
      arguments.push_back({"--ckpt-format fsdp_dtensor", "the only one with --use-megatron-fsdp"});
      break;
    }
  }
  if (made.zero != ZeroStage::none && made.zero_degree < all) arguments.push_back({flag("num-distributed-optimizer-instances", all / made.zero_degree), "copies of what is sharded"});
  arguments.push_back({"--overlap-grad-reduce", "gradients are reduced beside the backward"});
  if (made.zero == ZeroStage::value) arguments.push_back({"--overlap-param-gather", "values are gathered beside the computing"});
}

void add_again(const FrameworkPlan& made, std::vector<Argument>& arguments) {
  if (made.again == Again::layers) {
    arguments.push_back({"--recompute-granularity full", ""});
    arguments.push_back({made.again_layers == 0 ? "--recompute-method uniform" : "--recompute-method block", made.again_layers == 0 ? "all layers run again for their backward" : "the first layers of each part of the model run again"});
    arguments.push_back({flag("recompute-num-layers", made.again_layers == 0 ? 1 : made.again_layers), ""});
  } else if (made.again == Again::parts) {
    std::string modules;
    for (const LayerPart part : made.parts) modules += " " + module_of(part);
    arguments.push_back({"--recompute-granularity selective", ""});
    arguments.push_back({"--recompute-modules" + modules, "what runs again for the backward of each layer"});
  }
}

void add_types(const PlanReading& plan, std::vector<Argument>& arguments) {
  if (plan.dtype == DType::bfloat16) arguments.push_back({"--bf16", ""});
  if (plan.dtype == DType::float16) arguments.push_back({"--fp16", ""});
  if (plan.dtype == DType::bfloat16 && plan.training.gradient_dtype(plan.dtype) == DType::bfloat16) arguments.push_back({"--grad-reduce-in-bf16", "gradients are reduced and kept in their own type"});
}

}  // namespace

Result<FrameworkPlan> nearest_plan(const PlanReading& plan) {
  Result<FrameworkPlan> made = framework::nearest_degrees(plan, kName);
  if (!made) return made;
  take_schedule(plan, *made);
  take_sharding(*made);
  take_again(plan, *made);
  if (made->ep > 1 && made->tp > 1 && !made->sequence_parallel) {
    made->notes.emplace_back("Megatron-LM wants sequence parallelism where there is tensor and expert parallelism; the plan has none.");
    made->sequence_parallel = true;
  }
  return made;
}

std::vector<Argument> arguments_of(const PlanReading& plan, const FrameworkPlan& made) {
  std::vector<Argument> arguments{
      {flag("tensor-model-parallel-size", made.tp), ""},
      {flag("pipeline-model-parallel-size", made.pp), ""},
      {flag("context-parallel-size", made.cp), ""},
  };
  if (plan.experts > 0) {
    arguments.push_back({flag("expert-model-parallel-size", made.ep), std::to_string(plan.experts) + " experts in a layer"});
    if (made.etp != made.tp) arguments.push_back({flag("expert-tensor-parallel-size", made.etp), "of each expert; else it would be that of all other weights"});
  }
  add_pipeline(made, arguments);
  if (made.sequence_parallel) arguments.push_back({"--sequence-parallel", "norms take their part of the sequence"});
  arguments.push_back({flag("micro-batch-size", made.micro_batch), "x dp " + std::to_string(made.dp) + " x " + std::to_string(plan.training.microbatches) + " microbatches"});
  arguments.push_back({flag("global-batch-size", plan.batch), ""});
  add_zero(made, arguments);
  add_again(made, arguments);
  add_types(plan, arguments);
  return arguments;
}

std::string layout_text(const std::vector<std::int64_t>& layers) {
  std::string text = "E";
  for (std::size_t i = 0; i < layers.size(); ++i) text += (i > 0 ? "|" : "") + std::string(static_cast<std::size_t>(layers[i]), 't');
  return text + "L";
}

}  // namespace meshwright::megatron
