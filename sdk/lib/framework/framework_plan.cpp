#include "framework_plan.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <set>

namespace meshwright::framework {

namespace {

constexpr double kHardly = 0.005;  // a share of the computing that is not worth a note

std::string count(std::int64_t number, const std::string& what) { return std::to_string(number) + " " + what + (number == 1 ? "" : "s"); }

class NearestDegrees {
 public:
  NearestDegrees(const PlanReading& plan, const std::string& framework) : plan_(plan), framework_(framework) {}

  Result<FrameworkPlan> make() {
    made_.pp = plan_.groups;
    made_.chunks = plan_.chunks;
    made_.schedule = plan_.schedule;
    take_use();
    if (Status status = divide_batch(); !status) return status.error();
    divide_sequence();
    if (Status status = divide_heads(); !status) return status.error();
    take_experts();
    made_.sequence_parallel = plan_.use.sequence_parallel && made_.tp > 1;
    if (Status status = take_layers(); !status) return status.error();
    take_zero();
    return std::move(made_);
  }

 private:
  void note(std::string sentence) { made_.notes.push_back(std::move(sentence)); }

  void take_use() {
    const StageUse& use = plan_.use;
    made_.dp = use.data;
    made_.tp = use.tensor;
    made_.cp = use.context;
    if (!plan_.unlike.empty()) {
      std::string stages;
      for (const std::uint32_t stage : plan_.unlike) stages += (stages.empty() ? "" : ", ") + std::to_string(stage);
      note("Stages are not alike: the degrees are those of most computing, and stage " + stages + " has others in the plan.");
    }
    if (use.idle > 1) {
      made_.dp *= use.idle;
      note("Over " + count(use.idle, "device") + " the plan repeats the computing of most ops with weights; here they are data parallel.");
    }
    if (use.weight_seconds > 0 && use.mixed_seconds > kHardly * use.weight_seconds) {
      note("The plan splits " + percent_text(use.mixed_seconds / use.weight_seconds) + " of the computing of ops with weights otherwise than these degrees do.");
    }
    if (plan_.is_free_order) note("The plan has an order of its microbatches of its own ([train] order); here each microbatch's forward and backward come before the next one's.");
  }

  // A microbatch's samples are divided by dp.
  Status divide_batch() {
    const std::int64_t fits = std::gcd(plan_.microbatch(), made_.dp);
    if (fits == made_.dp) {
      made_.micro_batch = plan_.microbatch() / made_.dp;
      return Done{};
    }
    note("A microbatch of " + count(plan_.microbatch(), "sample") + " is not divided by dp " + std::to_string(made_.dp) + "; " + std::to_string(made_.dp / fits) + " of that are tensor parallel here.");
    made_.tp *= made_.dp / fits;
    made_.dp = fits;
    made_.micro_batch = plan_.microbatch() / made_.dp;
    return Done{};
  }

  Status divide_heads() {
    if (plan_.heads == 0 || plan_.heads % made_.tp == 0) return Done{};
    const std::int64_t fits = std::gcd(plan_.heads, made_.tp), rest = made_.tp / fits;
    const std::string why = framework_ + " divides the " + std::to_string(plan_.heads) + " heads of attention by its tensor parallel size, which tp " + std::to_string(made_.tp) + " does not";
    if (made_.micro_batch % rest == 0) {
      note(why + "; " + std::to_string(rest) + " of that are data parallel here.");
      made_.dp *= rest;
      made_.micro_batch /= rest;
    } else if (plan_.sequence > 0 && plan_.sequence % (2 * made_.cp * rest) == 0) {
      note(why + "; " + std::to_string(rest) + " of that are context parallel here.");
      made_.cp *= rest;
    } else {
      return bad_input(why + ", and neither the " + count(made_.micro_batch, "sample") + " of a microbatch on a device nor its sequence are divided by the rest; plan for degrees that divide them, by [search] inter = \"manual\"");
    }
    made_.tp = fits;
    return Done{};
  }

  void divide_sequence() {
    if (made_.cp == 1 || plan_.sequence == 0 || plan_.sequence % (2 * made_.cp) == 0) return;
    note(framework_ + " cuts sequences into 2 x " + std::to_string(made_.cp) + " equal parts for context parallelism, and " + count(plan_.sequence, "position") + " are not divided by that; these devices are tensor parallel here.");
    made_.tp *= made_.cp;
    made_.cp = 1;
  }

  void take_experts() {
    made_.ep = plan_.use.experts;
    made_.etp = plan_.use.expert_tensor;
    made_.expert_data = std::gcd(plan_.use.expert_data, made_.dp);
    made_.experts_apart = std::gcd(plan_.use.experts_apart * (plan_.use.expert_data / made_.expert_data), made_.dp / made_.expert_data);
    if (made_.experts_apart > 1) made_.priced.push_back("the " + std::to_string(made_.experts_apart) + " devices over which experts are split do in other ops whatever is fastest");
  }

  Status take_layers() {
    const PlanLayers& layers = plan_.layers;
    if (layers.layers.empty()) return bad_input(framework_ + " trains models of numbered layers, and this one has none: no module is called like \"layers.0\"; emit it as a program of its own (--backend torch)");
    if (std::ranges::all_of(layers.layers, [](const Layer& layer) { return layer.part(LayerPart::attention).ops.empty(); })) note("No layer of the model has attention; the models that come with " + framework_ + " do.");
    made_.layers.assign(static_cast<std::size_t>(plan_.parts()), 0);
    for (const Layer& layer : layers.layers) ++made_.layers[layer.stage];
    if (plan_.parts() == 1) return Done{};
    if (layers.lists.size() != 1) {
      std::string lists;
      for (const std::string& list : layers.lists) lists += (lists.empty() ? "'" : ", '") + list + "'";
      return bad_input(framework_ + " cuts one list of layers into pipeline stages, and this model has several: " + lists + "; plan one stage (search.stages = 1)");
    }
    const auto split = std::ranges::count_if(layers.layers, &Layer::is_split);
    if (split > 0) {
      note("The plan cuts inside of " + count(split, "layer") + "; here " + (split == 1 ? "it is" : "each is") + " in the stage that has most of it.");
    }
    for (std::size_t i = 1; i < layers.layers.size(); ++i) {
      if (layers.layers[i].stage < layers.layers[i - 1].stage) return internal_error("layer '" + layers.layers[i].name + "' is in an earlier stage than the one before it");
    }
    return Done{};
  }

  void take_zero() {
    const std::int64_t most = made_.dp * made_.cp;
    if (most == 1) return;
    made_.zero = plan_.zero.stage;
    made_.zero_degree = plan_.zero.stage == ZeroStage::none ? 1 : most / std::gcd(plan_.zero.copies, most);
    if (made_.zero_degree == 1) made_.zero = ZeroStage::none;
    made_.regather = made_.zero == ZeroStage::value && plan_.zero.regather;
    if (plan_.zero.share < 1 - kHardly) {
      note("Parameters are not kept alike: " + percent_text(plan_.zero.share) + " of their elements are as written here (ZeRO-" + std::to_string(static_cast<int>(plan_.zero.stage)) + "), and here all are.");
    }
  }

  const PlanReading& plan_;
  const std::string& framework_;
  FrameworkPlan made_;
};

// A mesh axis of the plan that is asked for.
struct AskedAxis {
  std::int64_t size = 1;
  bool batch = false, weights = false, zero = false, context = false, experts = false;
};

std::string axes_text(const std::vector<AskedAxis>& axes, bool AskedAxis::*which, const std::string& none) {
  std::string text;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].*which) text += (text.empty() ? "" : ",") + std::to_string(i);
  }
  return text.empty() ? none : text;
}

std::string text_setting(const std::string& key, const std::string& value) { return key + "=\"" + value + "\""; }

// From the outermost: data parallel and whole, data parallel and sharded by ZeRO, that with experts apart, experts alone, context, tensor.
std::vector<AskedAxis> asked_axes(const FrameworkPlan& plan) {
  std::vector<AskedAxis> axes;
  const std::int64_t whole = plan.zero_degree > 1 ? plan.dp * plan.cp / plan.zero_degree : 1;
  const bool is_hybrid = plan.zero != ZeroStage::none && whole > 1 && plan.dp % whole == 0;
  std::int64_t dp = plan.dp;
  const auto add = [&](AskedAxis axis) {
    if (axis.size > 1) axes.push_back(axis);
  };
  if (is_hybrid) {
    add({whole, true, false, false});
    dp /= whole;
  }
  const std::int64_t travelled = std::gcd(plan.expert_data, dp), apart = std::gcd(plan.experts_apart, dp / travelled);
  add({dp / (travelled * apart), true, false, true});
  add({travelled, true, false, true, false, true});
  add({apart, false, false, true});
  add({plan.cp, false, false, true, true});
  add({plan.tp, false, true, false});
  return axes;
}

void ask_again(const PlanReading& plan, const FrameworkPlan& made, AskedPlan& asked) {
  if (made.all_layers_again()) {
    asked.settings.push_back(text_setting("search.recompute", "all"));
    return;
  }
  asked.settings.push_back(text_setting("search.recompute", "none"));
  if (made.again == Again::none) return;
  std::size_t part = 0, in_part = 0;
  for (const Layer& layer : plan.layers.layers) {
    while (part < made.layers.size() && in_part >= static_cast<std::size_t>(made.layers[part])) ++part, in_part = 0;
    const bool is_first = in_part++ < static_cast<std::size_t>(made.again_layers);
    if (made.again == Again::layers && !is_first) continue;
    const std::set<std::string> products(layer.products.begin(), layer.products.end());
    for (std::size_t i = 0; i < kLayerParts; ++i) {
      const bool wanted = made.again == Again::layers || made.keeps_products || std::ranges::find(made.parts, static_cast<LayerPart>(i)) != made.parts.end();
      for (const std::string& op : layer.parts[i].ops) {
        if (wanted && !(made.again == Again::parts && made.keeps_products && products.contains(op))) asked.pins.emplace_back(op, "recompute");
      }
    }
  }
}

void ask_stages(const PlanReading& plan, const FrameworkPlan& made, AskedPlan& asked) {
  asked.settings.push_back("search.stages=" + std::to_string(made.pp));
  if (made.pp == 1) return;
  asked.settings.push_back(text_setting("search.schedule", made.schedule));
  asked.settings.push_back("search.chunks=" + std::to_string(made.chunks > 1 ? made.chunks : 0));
  std::size_t next = 0;
  for (std::size_t part = 0; part < made.layers.size(); ++part) {
    for (std::int64_t i = 0; i < made.layers[part] && next < plan.layers.layers.size(); ++i) asked.pins.emplace_back(plan.layers.layers[next++].name, "stage " + std::to_string(part));
  }
}

}  // namespace

bool FrameworkPlan::is_even() const { return std::ranges::adjacent_find(layers, std::not_equal_to<>()) == layers.end(); }

Result<FrameworkPlan> nearest_degrees(const PlanReading& plan, const std::string& framework) { return NearestDegrees(plan, framework).make(); }

void merge_chunks(FrameworkPlan& plan) {
  std::vector<std::int64_t> merged(static_cast<std::size_t>(plan.pp), 0);
  for (std::size_t i = 0; i < plan.layers.size(); ++i) merged[i / static_cast<std::size_t>(plan.chunks)] += plan.layers[i];
  plan.layers = std::move(merged);
  plan.chunks = 1;
}

void note_again(const PlanReading& plan, FrameworkPlan& made, const std::string& framework) {
  double all = plan.layers.again_outside_seconds, unsaid = plan.layers.again_outside_seconds;
  for (const Layer& layer : plan.layers.layers) {
    for (std::size_t i = 0; i < kLayerParts; ++i) {
      all += layer.parts[i].again_seconds;
      const bool said = made.again == Again::layers || made.keeps_products || std::ranges::find(made.parts, static_cast<LayerPart>(i)) != made.parts.end();
      if (!said || made.again == Again::none) unsaid += layer.parts[i].again_seconds;
    }
  }
  if (all > 0 && unsaid > kHardly * all) made.notes.push_back(percent_text(unsaid / all) + " of the computing that the plan runs again is of ops that " + framework + " has no word for; here they are kept.");
  if (plan.layers.converted_again > 0) {
    made.notes.push_back("The plan gathers " + std::to_string(plan.layers.converted_again) + " inputs of ops again for the backward" + (made.sequence_parallel ? ", as sequence parallelism does." : "; here they are kept."));
  }
}

AskedPlan asked_plan(const PlanReading& plan, const FrameworkPlan& made) {
  AskedPlan asked;
  const std::vector<AskedAxis> axes = asked_axes(made);
  std::string mesh;
  for (const AskedAxis& axis : axes) mesh += (mesh.empty() ? "" : "x") + std::to_string(axis.size);
  asked.settings.push_back(text_setting("cluster.mesh", mesh.empty() ? "1" : mesh));
  asked.settings.push_back(text_setting("search.batch_axes", axes_text(axes, &AskedAxis::batch, "none")));
  asked.settings.push_back(text_setting("search.weights", axes_text(axes, &AskedAxis::weights, "free")));
  asked.settings.push_back(text_setting("search.context_axes", axes_text(axes, &AskedAxis::context, "none")));
  asked.settings.push_back(text_setting("search.expert_axes", axes_text(axes, &AskedAxis::experts, "none")));
  asked.settings.push_back(text_setting("search.zero", std::to_string(static_cast<int>(made.zero))));
  if (made.zero != ZeroStage::none) asked.settings.push_back(text_setting("search.zero_axes", axes_text(axes, &AskedAxis::zero, "all")));
  if (made.zero == ZeroStage::value) asked.settings.push_back(text_setting("search.regather", made.regather ? "always" : "never"));
  ask_stages(plan, made, asked);
  ask_again(plan, made, asked);
  return asked;
}

std::string line_text(const std::string& note) {
  std::string line = note;
  std::ranges::replace_if(line, [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return line;
}

std::string notes_text(const FrameworkPlan& plan, const std::string& framework) {
  std::string text = plan.notes.empty() ? "# " + framework + "'s words say all that this reads of the plan.\n" : "# The plan itself cannot be said in " + framework + "'s words. What is nearest, and what it leaves:\n";
  for (const std::string& note : plan.notes) text += "# - " + line_text(note) + "\n";
  for (const std::string& how : plan.priced) text += "# It is priced so that " + line_text(how) + ".\n";
  return text;
}

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

std::string numbers_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

}  // namespace meshwright::framework
