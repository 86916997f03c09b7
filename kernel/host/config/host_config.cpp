#include "config/host_config.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <optional>

#include "files/count_limits.h"
#include "meshwright/schedule.h"
#include "name_list.h"
#include "nearest_name.h"
#include "stage_devices.h"

namespace meshwright::host {
namespace {

constexpr meshwright_config_key_v1 kModel[] = {
    {"frontend", "text", "", "\"\"", "plugin that reads the model; by the file's suffix if absent"},
    {"batch", "integer", "", "0", "size of the batch; as exported if 0"},
    {"dimensions", "text", "", "\"\"", "sizes of dimensions that the file leaves open: \"sequence=128, patches=49\""},
    {"loss", "text", "", "\"none\"", "loss to train on, of a model that has none: cross_entropy or mse"},
    {"loss_output", "text", "", "\"\"", "output that the loss is of; the first one if absent"},
    {"loss_shift", "boolean", "", "false", "cross_entropy of a language model: position i predicts label i + 1"},
};
constexpr meshwright_config_key_v1 kCluster[] = {
    {"plugin", "text", "", "\"file\"", "plugin that describes the cluster"},
    {"file", "text", "", "\"\"", "cluster file; --cluster goes before it"},
    {"mesh", "text", "", "\"\"", "shape of the mesh, such as 2x4; the best of several if absent"},
};
constexpr meshwright_config_key_v1 kSearch[] = {
    {"intra", "text", "", "\"elimination\"", "plugin that chooses a strategy for each op"},
    {"conversions", "text", "", "\"shortest_path\"", "plugin that finds the way from one layout to another"},
    {"profiler", "text", "", "\"roofline\"", "plugin that gives the figures for the cost model"},
    {"checkpoint", "text", "", "\"none\"", "plugin that chooses what of a chain of stages is recomputed, in MAP's two stages: rotor, checkmate, chen, dtr"},
    {"checkpoint_alpha", "number", "", "0.2", "of checkpoint: plans of so many times the budget are made to fit, powers 0 to 9 of 1 + alpha"},
    {"stages", "integer", "", "1", "pipeline stages: the model is cut into so many parts that take about as long, each on devices of its own; [pins] \"transformer.h.6\" = \"stage 1\""},
    {"stage_devices", "text", "", "\"\"", "how many devices each stage gets, such as 4,2,1,1: all of the cluster's; as many each if absent"},
    {"chunks", "integer", "", "0", "with several stages: so many parts of the model, not one behind the other, for the devices of each; 0: what the schedule usually has"},
    {"schedule", "text", "", "\"one_f_one_b\"", "plugin that orders the microbatches of pipeline stages: gpipe, one_f_one_b, interleaved, looped_bfs"},
    {"inter", "text", "", "\"none\"", "who chooses the number of stages: none (stages says it); grid: numbers of stages, schedules and microbatches are tried; joint: they are searched for with cuts and meshes; manual: [inter.manual] says it; else a plugin that solves placement problems: pipedream, max_load, piper, reinforce, alpa, dapple, galvatron"},
    {"memory_budget", "bytes", "bytes", "0", "memory per device; all that the cluster file leaves free if 0"},
    {"work_limit", "integer", "steps", "4_000_000_000", "work after which a solver stops; the same on any machine"},
    {"deadline_seconds", "number", "seconds", "60.0", "time after which a solver stops, if the work limit has not"},
    {"step_rounds", "integer", "", "6", "searches by the step itself on each mesh, as long as they help: its bound comes from them; 0: none"},
    {"reduce", "text", "", "\"all\"",
     "what makes the problem smaller before it is solved: all, none, or some of consistency,dominance,contraction"},
    {"weights", "text", "", "\"free\"", "free: any layout; sharded: every weight that can be sharded must be; 1,2: over these mesh axes"},
    {"zero", "text", "", "\"free\"",
     "free: each parameter as it is fastest; 0, 1, 2, 3: every one at this stage of ZeRO, over the axes it is whole on"},
    {"zero_axes", "text", "", "\"all\"", "mesh axes that ZeRO may shard over, such as 0 or 0,2 (hybrid sharding)"},
    {"regather", "text", "", "\"free\"", "ZeRO-3, for the backward: always gather again, never (keep), or free"},
    {"recompute", "text", "", "\"none\"",
     "what runs again for the backward, so that less is kept: none; all blocks; blocks: as many as make the fastest plan that fits; or free: ops of blocks, too, and what of their inputs is converted again"},
    {"prefetch", "text", "", "\"free\"", "ZeRO-3: always gather beside the unit before, never (when it is computed with), or free"},
    {"inputs", "text", "", "\"any\"", "any: each rank is fed what the plan wants of an input; rows: its rows of the batch, from which the rest is gathered"},
    {"sure", "boolean", "", "true", "whether a plan says how wrong which figures would have to be for the second best distinct plan to win"},
    {"batch_axes", "text", "", "\"none\"", "mesh axes that only ever shard the batch (data parallelism): none, all, 0,2"},
    {"context_axes", "text", "", "\"none\"", "mesh axes over which weights are computed with whole, and which do not shard the batch (context parallelism): none, all, 1"},
    {"expert_axes", "text", "", "\"none\"", "mesh axes over which the experts of each layer lie apart, also where batch_axes or context_axes has weights whole (expert parallelism): none, all, 1"},
};
constexpr meshwright_config_key_v1 kTrain[] = {
    {"optimizer", "text", "", "\"adamw\"", "decides how much state a parameter has"},
    {"dtype", "text", "", "\"exported\"", "type of parameters, activations and gradients"},
    {"param_dtype", "text", "", "\"exported\"", "another name of dtype"},
    {"master_dtype", "text", "", "\"fp32\"", "type of the optimizer's copy of the parameters and of its state"},
    {"reduce_dtype", "text", "", "\"dtype\"", "type in which gradients are reduced and kept; dtype: the parameter's"},
    {"microbatches", "text", "", "\"1\"", "parts into which a step cuts the batch; their gradients are averaged; free: as many as make the fastest plan that fits"},
    {"order", "text", "", "\"\"", "of microbatches: their forwards and backwards as they follow each other, like F0 F1 B0 B1; empty: one after the other"},
    {"gradients", "text", "", "\"kept\"", "of microbatches: kept on each device and reduced once a step, or reduced after each"},
    {"attention", "text", "", "\"flash_2\"", "kernel whose rates the device's file gives for attention in one op: flash_1, flash_2, flash_3"},
    {"tf32", "boolean", "", "false", "whether float32 products may run in TF32 (torch.backends.cuda.matmul.allow_tf32)"},
    {"cuda_graphs", "boolean", "", "false", "whether a step is replayed as CUDA graphs, so that the host launches nothing"},
    {"compile", "boolean", "", "false", "whether a compiler fuses elementwise ops and reductions (torch.compile)"},
    {"batch_coupling", "text", "", "\"refuse\"", "of ops that mix the samples of a batch, with microbatches: refuse, allow"},
};
constexpr meshwright_config_key_v1 kManual[] = {
    {"dp", "integer", "", "0", "of inter = manual: degree of data parallelism in each stage; what the other degrees leave of the devices if 0"},
    {"tp", "integer", "", "1", "degree of tensor parallelism in each stage, as Megatron's"},
    {"pp", "integer", "", "1", "pipeline stages"},
    {"cp", "integer", "", "1", "degree of context parallelism in each stage"},
    {"ep", "integer", "", "1", "degree of expert parallelism: experts lie over so many of the devices of dp, and tokens travel to them"},
};
constexpr meshwright_config_key_v1 kJoint[] = {
    {"most_searched_ops", "integer", "ops", "600", "of inter = joint: the largest model each of whose stages is searched for; those of larger ones are put together of what few layers do"},
};
constexpr meshwright_config_key_v1 kEmit[] = {
    {"backend", "text", "", "\"text\"", "plugin that the plan is emitted for"},
    {"parameter_shard", "text", "", "\"parameter_shard\"", "pass that joins stored parameters to the computing"},
    {"communication", "text", "", "\"communication\"", "pass that turns conversions into collectives"},
    {"reshape", "text", "", "\"reshape\"", "pass that gives every op one rank's shapes"},
    {"price", "boolean", "", "true", "of backends that write the nearest plan of a framework: whether that is planned too, to say what it takes"},
};
constexpr meshwright_config_key_v1 kPlugins[] = {
    {"paths", "texts", "", "[]", "folders or files to search for plugins before all others"},
};

constexpr HostSection kSections[] = {
    {"model", kModel}, {"cluster", kCluster}, {"search", kSearch},
    {"train", kTrain}, {"inter.manual", kManual}, {"inter.joint", kJoint}, {"emit", kEmit}, {"plugins", kPlugins},
};

constexpr std::string_view kPins = "pins";

struct Choice {
  std::string_view section;
  std::string_view key;
  std::vector<std::string> values;
  std::vector<std::string> listed = {};  // of which a list such as "a,b" will do too
};

// Texts that are neither free nor a plugin's name.
const std::vector<Choice>& choices() {
  static const std::vector<Choice> all = {
      {"model", "loss", {"none", "cross_entropy", "mse"}},
      {"search", "reduce", {"all", "none"}, {"consistency", "dominance", "contraction"}},
      {"search", "inputs", {"any", "rows"}},
      {"search", "zero", {"free", "0", "1", "2", "3"}},
      {"search", "recompute", {"none", "all", "blocks", "free"}},
      {"search", "regather", {"free", "always", "never"}},
      {"search", "prefetch", {"free", "always", "never"}},
      {"train", "optimizer", {"sgd", "momentum", "adam", "adamw"}},
      {"train", "dtype", {"exported", "bf16", "fp16", "fp32"}},
      {"train", "param_dtype", {"exported", "bf16", "fp16", "fp32"}},
      {"train", "master_dtype", {"fp32", "bf16", "fp16"}},
      {"train", "reduce_dtype", {"dtype", "fp32", "bf16", "fp16"}},
      {"train", "gradients", {"kept", "reduced"}},
      {"train", "batch_coupling", {"refuse", "allow"}},
  };
  return all;
}

struct KindGroup {
  std::string_view name;
  std::vector<std::string> kinds;
};

const std::vector<KindGroup>& groups() {
  static const std::vector<KindGroup> all = {
      {"frontend", {"frontend"}},
      {"cluster", {"clusters"}},
      {"transport", {"transports"}},
      {"profiler", {"profilers"}},
      {"ops", {"ops"}},
      {"conversions", {"conversions"}},
      {"search", {"intra", "inter", "checkpoint", "schedules"}},
      {"emit", {"backend", "passes", "kernels", "emitters"}},
  };
  return all;
}

Schema schema_named(std::string_view name) {
  for (const HostSection& section : kSections) {
    if (section.name == name) return section.keys;
  }
  return {};
}

// The part of `value` that no choice is, if there is one.
std::optional<std::string> stranger(const Choice& choice, const std::string& value) {
  const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (is_in(choice.values, value)) return std::nullopt;
  if (choice.listed.empty()) return value;
  for (const std::string& part : split_names(value)) {
    if (!is_in(choice.listed, part)) return part;
  }
  return std::nullopt;
}

Status check_choices(const ConfigTree& tree, std::string_view section, const Config& config) {
  for (const Choice& choice : choices()) {
    if (choice.section != section) continue;
    const std::string& value = config.text(choice.key);
    const std::optional<std::string> wrong = stranger(choice, value);
    if (!wrong) continue;
    std::vector<std::string> known = choice.listed;
    if (value.find(',') == std::string::npos) known.insert(known.begin(), choice.values.begin(), choice.values.end());
    const ConfigEntry& entry = tree.section(section)->keys.find(choice.key)->second;
    return bad_input(entry.where + ": \"" + std::string(choice.key) + "\" in [" + std::string(section) +
                     "] can't be \"" + *wrong + "\"" + suggest(*wrong, known));
  }
  return Done{};
}

bool gives(const ConfigTree& tree, std::string_view section, std::string_view key) {
  const ConfigSection* found = tree.section(section);
  return found != nullptr && found->keys.contains(key);
}

// As a number: 1 where the planner chooses.
Status read_microbatches(const ConfigTree& tree, HostConfig& config) {
  const std::string& inter = config.search.text("inter");
  const bool chosen = inter != "none" && inter != "manual" && !gives(tree, "train", "microbatches");
  const std::string text = chosen ? "free" : config.train.text("microbatches");
  config.free_microbatches = text == "free";
  std::int64_t count = 1;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (!config.free_microbatches && (wrong != std::errc() || end != text.data() + text.size())) {
    return bad_input("\"microbatches\" in [train] must be a number of parts or \"free\", and is \"" + text + "\"");
  }
  if (config.free_microbatches && !config.train.text("order").empty()) {
    return bad_input("\"order\" in [train] is of so many microbatches, and \"microbatches\" is \"free\"; give their number, or no order");
  }
  config.train.set("microbatches", config.free_microbatches ? 1 : count);
  return Done{};
}

// Where the number of stages is not what [search] stages says.
Status check_chosen_stages(const HostConfig& config, const std::string& inter) {
  const std::string& order = config.train.text("order");
  if (!order.empty()) return bad_input("\"order\" in [train] is of one stage, and \"inter\" in [search] is \"" + inter + "\", which has schedules of several; leave one out");
  if (config.joint.integer("most_searched_ops") < 0) return bad_input("\"most_searched_ops\" in [inter.joint] must be at least 0");
  if (inter != "manual") return Done{};
  if (config.free_microbatches) return bad_input("\"microbatches\" in [train] is \"free\", which is not tried with inter = \"manual\"; give their number");
  for (const char* key : {"dp", "tp", "pp", "cp", "ep"}) {
    const std::int64_t degree = config.manual.integer(key), least = std::string_view(key) == "dp" ? 0 : 1;
    if (degree < least) return bad_input("\"" + std::string(key) + "\" in [inter.manual] must be at least " + std::to_string(least));
  }
  if (config.manual.integer("pp") > kMostScheduleStages) return bad_input("\"pp\" in [inter.manual] must be at most " + std::to_string(kMostScheduleStages));
  return Done{};
}

// What it says of the number of stages too.
Status read_stage_devices(HostConfig& config) {
  const std::string& text = config.search.text("stage_devices");
  if (text.empty()) return Done{};
  const Result<std::vector<std::int64_t>> devices = parse_stage_devices(text);
  if (!devices) return add_context("\"stage_devices\" in [search]", devices.error());
  const std::int64_t count = std::ssize(*devices), stages = config.search.integer("stages");
  if (const std::string& inter = config.search.text("inter"); inter != "none") return bad_input("\"stage_devices\" in [search] is what inter = \"" + inter + "\" decides; leave one of them out");
  if (config.given.stages && stages != count) return bad_input("\"stages\" in [search] is " + std::to_string(stages) + ", and \"stage_devices\" has " + std::to_string(count) + " numbers; leave \"stages\" out");
  config.search.set("stages", count);
  return Done{};
}

// What one who plans several stages decides by itself.
Status check_stages(const HostConfig& config) {
  const std::int64_t stages = config.search.integer("stages");
  if (stages < 1 || stages > kMostScheduleStages) return bad_input("\"stages\" in [search] must be at least 1, and at most " + std::to_string(kMostScheduleStages));
  const std::int64_t chunks = config.search.integer("chunks");
  if (chunks < 0 || chunks > kMostScheduleChunks) return bad_input("\"chunks\" in [search] must be at least 1, at most " + std::to_string(kMostScheduleChunks) + ", or 0 for what the schedule usually has");
  if (const std::string& inter = config.search.text("inter"); inter != "none") return check_chosen_stages(config, inter);
  if (stages == 1 && chunks > 1) return bad_input("\"chunks\" in [search] is of a model in several stages; give \"stages\" too");
  if (stages == 1) return Done{};
  if (!config.train.text("order").empty()) return bad_input("\"order\" in [train] is of one stage, and \"stages\" in [search] is " + std::to_string(stages) + ": their order is that of \"schedule\"; leave one out");
  if (config.free_microbatches) return bad_input("\"microbatches\" in [train] is \"free\", which is not tried with several stages so far; give their number");
  return Done{};
}

// A number that makes no sense whoever reads it.
Status check_ranges(const HostConfig& config) {
  if (config.train.integer("microbatches") < 1 || config.train.integer("microbatches") > kMostMicrobatches) {
    return bad_input("\"microbatches\" in [train] must be at least 1, and at most " + std::to_string(kMostMicrobatches));
  }
  if (config.model.integer("batch") < 0) return bad_input("\"batch\" in [model] must be at least 1, or 0 for the exported one");
  const std::string& dtype = config.train.text("dtype");
  const std::string& param_dtype = config.train.text("param_dtype");
  if (dtype != "exported" && param_dtype != "exported" && dtype != param_dtype) {
    return bad_input("\"dtype\" and \"param_dtype\" in [train] are one setting, but say \"" + dtype + "\" and \"" +
                     param_dtype + "\"; leave one out");
  }
  if (const std::int64_t rounds = config.search.integer("step_rounds"); rounds < 0 || rounds > kMostStepRounds) {
    return bad_input("\"step_rounds\" in [search] must be at least 0, and at most " + std::to_string(kMostStepRounds));
  }
  if (const std::string& checkpoint = config.search.text("checkpoint"); checkpoint != "none" && config.search.text("recompute") != "none") {
    return bad_input("\"checkpoint\" = \"" + checkpoint + "\" and \"recompute\" = \"" + config.search.text("recompute") +
                     "\" in [search] both choose what runs again; leave one of them at \"none\"");
  }
  if (const double alpha = config.search.number("checkpoint_alpha"); !(alpha > 0 && alpha <= 1)) {
    return bad_input("\"checkpoint_alpha\" in [search] must be more than 0, and at most 1");
  }
  if (Status status = check_stages(config); !status) return status;
  if (config.search.integer("work_limit") < 1) return bad_input("\"work_limit\" in [search] must be at least 1");
  if (const double seconds = config.search.number("deadline_seconds"); !(seconds > 0 && seconds <= kMostDeadlineSeconds)) {
    return bad_input("\"deadline_seconds\" in [search] must be more than 0, and at most 1e8");
  }
  return Done{};
}

std::string resolved(const std::string& path, const std::string& base_folder) {
  return path.empty() ? path : (std::filesystem::path(base_folder) / path).lexically_normal().string();
}

std::string base_folder_of(const ConfigTree& tree, std::string_view section, std::string_view key) {
  const ConfigSection* found = tree.section(section);
  if (found == nullptr) return "";
  const auto entry = found->keys.find(key);
  return entry == found->keys.end() ? "" : entry->second.base_folder;
}

// Refuses sections that neither the host nor any kind of plugin has. Whether the plugin of [group.ID] exists is checked
// where the plugins are known.
Status check_section_names(const ConfigTree& tree) {
  std::vector<std::string> known = plugin_groups();
  for (const HostSection& section : kSections) known.emplace_back(section.name.substr(0, section.name.find('.')));
  known.emplace_back(kPins);
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  for (const auto& [name, section] : tree.sections) {
    const std::string first = name.substr(0, name.find('.'));
    if (name.empty()) continue;
    if (std::find(known.begin(), known.end(), first) == known.end()) {
      return bad_input(section.where + ": unknown section [" + name + "]" + suggest(first, known));
    }
    if (name != first && kinds_of_group(first).empty() && !is_host_section(name)) {
      return bad_input(section.where + ": unknown section [" + name + "]; [" + first + "] has no sections inside" +
                       (first == kPins ? ": put names with dots in quotes" : ""));
    }
    // A group that the host itself has no keys for holds sections only; [ops] and [pins] are read apart.
    if (name == first && name != "ops" && name != kPins && schema_named(name).empty() && !section.keys.empty()) {
      const auto& [key, entry] = *section.keys.begin();
      return bad_input(entry.where + ": [" + name + "] has no key \"" + key + "\"; configure a plugin under [" + name +
                       ".ID]");
    }
  }
  return Done{};
}

Result<std::map<std::string, std::string>> read_ops(const ConfigTree& tree) {
  std::map<std::string, std::string> op_family;
  const ConfigSection* section = tree.section("ops");
  if (section == nullptr) return op_family;
  for (const auto& [op, entry] : section->keys) {
    const auto* family = std::get_if<std::string>(&entry.value);
    if (family == nullptr) {
      return bad_input(entry.where + ": \"" + op + "\" in [ops] must be the id of an op family, a text in quotes");
    }
    op_family[op] = *family;
  }
  return op_family;
}

Result<std::vector<Pin>> read_pins(const ConfigTree& tree) {
  std::vector<Pin> pins;
  const ConfigSection* section = tree.section(kPins);
  if (section == nullptr) return pins;
  for (const auto& [name, entry] : section->keys) {
    const auto* text = std::get_if<std::string>(&entry.value);
    if (text == nullptr) {
      return bad_input(entry.where + ": \"" + name + "\" in [pins] must be a layout or a strategy, a text such as \"S0R\" or \"b, repeat\"");
    }
    pins.push_back({name, *text, entry.where});
  }
  return pins;
}

}  // namespace

std::span<const HostSection> host_sections() { return kSections; }

bool is_host_section(std::string_view name) { return std::ranges::find(kSections, name, &HostSection::name) != std::end(kSections); }

std::vector<std::string> plugin_groups() {
  std::vector<std::string> names;
  for (const KindGroup& group : groups()) names.emplace_back(group.name);
  return names;
}

std::vector<std::string> kinds_of_group(std::string_view group) {
  for (const KindGroup& candidate : groups()) {
    if (candidate.name == group) return candidate.kinds;
  }
  return {};
}

std::string plugin_section(std::string_view kind, std::string_view id) {
  for (const KindGroup& group : groups()) {
    if (std::find(group.kinds.begin(), group.kinds.end(), kind) != group.kinds.end()) {
      return std::string(group.name) + "." + std::string(id);
    }
  }
  return std::string(kind) + "." + std::string(id);
}

Result<HostConfig> check_host_config(const ConfigTree& tree) {
  if (Status names = check_section_names(tree); !names) return names.error();
  if (Result<Config> root = check_section(tree, "", {}); !root) return root.error();
  HostConfig config;
  Config plugins;
  const std::initializer_list<std::pair<std::string_view, Config*>> targets = {
      {"model", &config.model}, {"cluster", &config.cluster}, {"search", &config.search},
      {"train", &config.train}, {"inter.manual", &config.manual}, {"inter.joint", &config.joint}, {"emit", &config.emit}, {"plugins", &plugins}};
  for (const auto& [name, target] : targets) {
    Result<Config> section = check_section(tree, name, schema_named(name));
    if (!section) return section.error();
    if (Status allowed = check_choices(tree, name, *section); !allowed) return allowed.error();
    *target = std::move(*section);
  }
  config.given = {gives(tree, "search", "stages"), gives(tree, "search", "schedule")};
  if (Status devices = read_stage_devices(config); !devices) return devices.error();
  if (Status microbatches = read_microbatches(tree, config); !microbatches) return microbatches.error();
  if (Status ranges = check_ranges(config); !ranges) return ranges.error();

  for (const std::string& path : plugins.texts("paths")) {
    config.plugin_paths.push_back(resolved(path, base_folder_of(tree, "plugins", "paths")));
  }
  config.cluster.set("file", resolved(config.cluster.text("file"), base_folder_of(tree, "cluster", "file")));
  Result<std::map<std::string, std::string>> op_family = read_ops(tree);
  if (!op_family) return op_family.error();
  config.op_family = std::move(*op_family);
  Result<std::vector<Pin>> pins = read_pins(tree);
  if (!pins) return pins.error();
  config.pins = std::move(*pins);
  return config;
}

}  // namespace meshwright::host
