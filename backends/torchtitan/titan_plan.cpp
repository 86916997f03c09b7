#include "titan_plan.h"

#include <algorithm>
#include <numeric>

namespace meshwright::titan {

namespace {

using framework::Again;
using framework::FrameworkPlan;
using framework::Layer;
using framework::PlanReading;

constexpr const char* kName = "torchtitan";

void take_schedule(FrameworkPlan& made) {
  if (made.pp == 1 || !schedule_name(made.schedule).empty()) return;
  const std::string nearest = made.chunks > 1 ? "interleaved" : "one_f_one_b";
  made.notes.push_back("PyTorch has no schedule like '" + made.schedule + "' of the plan for so many stages of a device; here it is " + schedule_name(nearest) + ".");
  made.schedule = nearest;
}

// FSDP shards values, gradients and the optimizer's state alike, and keeps what it gathered for the backward or not. With pipeline stages it gathers once a step where it keeps, and
// reduces once: what ZeRO-1 does. Data parallelism without it is for that alone.
void take_sharding(TitanPlan& titan) {
  FrameworkPlan& made = titan.plan;
  if (made.dp * made.cp == 1) return;
  const std::int64_t all = made.dp * made.cp;
  if (made.zero == ZeroStage::none && made.cp == 1 && made.tp == 1 && made.pp == 1 && made.ep == 1) {
    titan.replicas = made.dp;
    return;
  }
  const std::int64_t degree = made.zero == ZeroStage::none ? all : made.zero_degree;
  titan.replicas = made.dp % (all / degree) == 0 ? all / degree : 1;
  titan.shards = made.dp / titan.replicas;
  titan.reshards = made.regather;
  made.zero_degree = all / titan.replicas;
  const ZeroStage before = made.zero;
  const bool once = made.pp > 1 && !titan.reshards;
  made.zero = once ? ZeroStage::optimizer : ZeroStage::value;
  if (before == ZeroStage::value && !once) return;
  const std::string kept = before == ZeroStage::none ? "whole on each device, for which torchtitan wants data parallelism alone" : "by ZeRO-" + std::to_string(static_cast<int>(before));
  made.notes.push_back("The plan keeps parameters " + kept + "; here FSDP shards them, and " +
                       (titan.reshards ? "gathers them again for the backward." : once ? "gathers them once a step: priced as ZeRO-1." : "keeps what it gathered until the backward: priced as ZeRO-3."));
}

// Experts lie over devices, or are in shards over those of tensor parallelism alone.
void take_experts(const PlanReading& plan, FrameworkPlan& made) {
  if (plan.experts == 0 || made.etp == 1 || (made.ep == 1 && made.etp == made.tp)) return;
  const std::int64_t all = made.ep * made.etp, fits = std::gcd(all, plan.experts);
  made.notes.push_back("In the plan each expert's weights are in shards over " + std::to_string(made.etp) + " devices, for which torchtitan has no word beside its tensor parallelism of " + std::to_string(made.tp) + "; here experts lie over " + std::to_string(fits) + " devices.");
  made.ep = fits;
  made.etp = 1;
}

void take_again(const PlanReading& plan, TitanPlan& titan) {
  FrameworkPlan& made = titan.plan;
  const std::vector<Layer>& layers = plan.layers.layers;
  const auto whole = static_cast<std::size_t>(std::ranges::count_if(layers, &Layer::all_again)), any = static_cast<std::size_t>(std::ranges::count_if(layers, &Layer::any_again));
  if (any == 0) {
    framework::note_again(plan, made, kName);
    return;
  }
  if (2 * whole >= layers.size()) {
    titan.activation_mode = "full";
    made.again = Again::layers;
    if (whole < layers.size()) made.notes.push_back("The plan runs " + std::to_string(whole) + " of " + std::to_string(layers.size()) + " layers again; here all are.");
  } else {
    titan.activation_mode = "selective";
    made.again = Again::parts;
    made.keeps_products = true;
    made.notes.push_back("The plan runs some ops of " + std::to_string(any) + " of " + std::to_string(layers.size()) + " layers again; here all but products and attention is, in every layer (selective, by op).");
  }
  framework::note_again(plan, made, kName);
}

std::string text(const std::string& value) { return "\"" + value + "\""; }
std::string text(std::int64_t value) { return std::to_string(value); }

// [["tok_embeddings", "layers.0"], ["layers.1", "norm", HEAD]]
std::string module_lists(const std::vector<std::int64_t>& layers) {
  std::string all;
  std::int64_t next = 0;
  for (std::size_t part = 0; part < layers.size(); ++part) {
    std::string names = part == 0 ? "\"tok_embeddings\"" : "";
    for (std::int64_t i = 0; i < layers[part]; ++i) names += (names.empty() ? "" : ", ") + text("layers." + std::to_string(next++));
    if (part + 1 == layers.size()) names += std::string(names.empty() ? "" : ", ") + "\"norm\", HEAD";
    all += (part > 0 ? ", [" : "[") + names + "]";
  }
  return "[" + all + "]";
}

}  // namespace

std::string schedule_name(const std::string& id) {
  static constexpr std::pair<const char*, const char*> kNames[] = {{"gpipe", "GPipe"},          {"one_f_one_b", "1F1B"},    {"interleaved", "Interleaved1F1B"},
                                                                  {"looped_bfs", "LoopedBFS"}, {"zb_v", "ZBVZeroBubble"}, {"dualpipe_v", "DualPipeV"}};
  for (const auto& [ours, theirs] : kNames) {
    if (id == ours) return theirs;
  }
  return "";
}

std::optional<std::vector<std::int64_t>> layers_of_split(std::int64_t layers, std::int64_t groups, const LayerSplit& split) {
  const std::int64_t counted = layers + split.first_less + split.last_less, stages = (counted + split.per_stage - 1) / split.per_stage;
  if (stages % groups != 0 || stages < 2) return std::nullopt;
  const std::int64_t each = counted / stages, more = counted % stages;
  if (each == 0 || split.first_less > each || split.last_less > each) return std::nullopt;
  std::vector<std::int64_t> made;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    made.push_back(each + (stage < more ? 1 : 0) - (stage == 0 ? split.first_less : 0) - (stage + 1 == stages ? split.last_less : 0));
  }
  return made;
}

std::optional<LayerSplit> split_of_layers(const std::vector<std::int64_t>& layers, std::int64_t groups) {
  const std::int64_t all = std::accumulate(layers.begin(), layers.end(), std::int64_t{0}), most = *std::ranges::max_element(layers);
  for (std::int64_t less = 0; less <= 2 * most; ++less) {
    for (std::int64_t first = 0; first <= less; ++first) {
      const std::int64_t counted = all + less, parts = static_cast<std::int64_t>(layers.size());
      const LayerSplit split{(counted + parts - 1) / parts, first, less - first};
      if (layers_of_split(all, groups, split) == layers) return split;
    }
  }
  return std::nullopt;
}

Result<TitanPlan> nearest_plan(const PlanReading& plan) {
  Result<FrameworkPlan> made = framework::nearest_degrees(plan, kName);
  if (!made) return made.error();
  TitanPlan titan;
  titan.plan = std::move(*made);
  take_schedule(titan.plan);
  take_experts(plan, titan.plan);
  take_sharding(titan);
  take_again(plan, titan);
  if (titan.plan.tp > 1 && !titan.plan.sequence_parallel) titan.plan.notes.emplace_back("The plan has no sequence parallelism beside its tensor parallelism; here it is off too.");
  if (plan.dtype == DType::float16) titan.plan.notes.emplace_back("torchtitan has no float16; here it is bfloat16.");
  return titan;
}

// Without pipeline stages microbatches are steps of gradient accumulation; with them they are the schedule's.
Fields training_fields(const PlanReading& plan, const TitanPlan& made) {
  const std::int64_t local = made.plan.micro_batch * (made.plan.pp > 1 ? plan.training.microbatches : 1);
  Fields fields{{"local_batch_size", text(local)}, {"global_batch_size", text(plan.batch)}};
  if (plan.sequence > 0) fields.emplace_back("seq_len", text(plan.sequence));
  const bool is_half = plan.dtype != DType::float32;
  fields.emplace_back("dtype", text(is_half && plan.training.master_dtype != DType::float32 ? "bfloat16" : "float32"));
  fields.emplace_back("mixed_precision_param", text(is_half ? "bfloat16" : "float32"));
  return fields;
}

Fields parallelism_fields(const PlanReading& plan, const TitanPlan& made) {
  const FrameworkPlan& degrees = made.plan;
  Fields fields{{"data_parallel_replicate_degree", text(made.replicas)}, {"data_parallel_shard_degree", text(made.shards)}};
  if (made.shards > 1 || degrees.cp > 1) fields.emplace_back("fsdp_reshard_after_forward", text(made.reshards ? "always" : "never"));
  fields.emplace_back("tensor_parallel_degree", text(degrees.tp));
  if (degrees.tp > 1) fields.emplace_back("enable_sequence_parallel", degrees.sequence_parallel ? "True" : "False");
  fields.emplace_back("context_parallel_degree", text(degrees.cp));
  if (plan.experts > 0) fields.emplace_back("expert_parallel_degree", text(degrees.ep));
  fields.emplace_back("pipeline_parallel_degree", text(degrees.pp));
  if (degrees.pp == 1) return fields;
  fields.emplace_back("pipeline_parallel_schedule", text(schedule_name(degrees.schedule)));
  fields.emplace_back("pipeline_parallel_microbatch_size", text(degrees.micro_batch));
  if (const std::optional<LayerSplit> split = split_of_layers(degrees.layers, degrees.pp)) {
    fields.emplace_back("pipeline_parallel_layers_per_stage", text(split->per_stage));
    fields.emplace_back("pipeline_parallel_first_stage_less_layers", text(split->first_less));
    fields.emplace_back("pipeline_parallel_last_stage_less_layers", text(split->last_less));
  } else {
    fields.emplace_back("module_fqns_per_model_part", module_lists(degrees.layers));
  }
  return fields;
}

}  // namespace meshwright::titan
