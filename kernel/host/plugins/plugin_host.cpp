#include "plugins/plugin_host.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <utility>

#include "meshwright/log.h"
#include "nearest_name.h"
#include "plugins/op_claims.h"

namespace meshwright::host {
namespace {

class LoadedOps final : public OpTable {
 public:
  explicit LoadedOps(std::map<std::string, std::shared_ptr<const OpFamily>, std::less<>> families)
      : families_(std::move(families)) {}

  [[nodiscard]] const OpFamily* find(std::string_view op) const override {
    const auto found = families_.find(op);
    return found == families_.end() ? nullptr : found->second.get();
  }

  // In the order of the first op that each serves.
  [[nodiscard]] std::vector<const OpFamily*> families() const override {
    std::vector<const OpFamily*> all;
    for (const auto& [op, family] : families_) {
      if (std::find(all.begin(), all.end(), family.get()) == all.end()) all.push_back(family.get());
    }
    return all;
  }

 private:
  std::map<std::string, std::shared_ptr<const OpFamily>, std::less<>> families_;
};

// Every section [group.ID] that is not the host's own must name a plugin, of any of the group's kinds.
Status check_plugin_sections(const ConfigTree& tree, const PluginRegistry& registry) {
  for (const auto& [name, section] : tree.sections) {
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos || is_host_section(name)) continue;
    const std::string group = name.substr(0, dot);
    const std::string id = name.substr(dot + 1);
    std::vector<std::string> known;
    for (const std::string& kind : kinds_of_group(group)) {
      for (std::string& plugin : registry.ids(kind)) known.push_back(std::move(plugin));
    }
    if (std::find(known.begin(), known.end(), id) != known.end()) continue;
    if (group == "ops" && nearest_name(id, known).empty()) {
      return bad_input(section.where + ": section [" + name +
                       "] names no op family; if it was meant as an op's name, "
                       "put that in quotes: \"aten.add.Tensor\" = \"family\"");
    }
    return bad_input(section.where + ": section [" + name + "] configures no plugin that exists" + suggest(id, known));
  }
  return Done{};
}

// Who chooses stages is one of the host's own, or a plugin.
Status check_inter(const HostConfig& config, const ConfigTree& tree, const PluginRegistry& registry) {
  const std::string& inter = config.search.text("inter");
  std::vector<std::string> known = {"none", "grid", "joint", "manual"};
  for (std::string& plugin : registry.ids("inter")) known.push_back(std::move(plugin));
  if (std::ranges::find(known, inter) != known.end()) return Done{};
  return bad_input(tree.section("search")->keys.find("inter")->second.where + ": \"inter\" in [search] can't be \"" + inter + "\"" + suggest(inter, known));
}

}  // namespace

Result<PluginHost> PluginHost::open(ConfigTree tree) {
  PluginHost host;
  Result<HostConfig> config = check_host_config(tree);
  if (!config) return config.error();
  Result<PluginRegistry> registry = PluginRegistry::discover(config->plugin_paths);
  if (!registry) return registry.error();
  if (Status sections = check_plugin_sections(tree, *registry); !sections) return sections.error();
  if (Status inter = check_inter(*config, tree, *registry); !inter) return inter.error();
  for (const PluginNotice& notice : registry->notices()) log(LogLevel::warning, "plugins", notice.message);
  host.tree_ = std::move(tree);
  host.config_ = std::move(*config);
  host.registry_ = std::move(*registry);
  return host;
}

Result<Config> PluginHost::plugin_config(std::string_view kind, std::string_view id) {
  const Result<const meshwright_plugin_v1*> plugin = registry_.load(kind, id);
  if (!plugin) return plugin.error();
  return check_section(tree_, plugin_section(kind, id), schema_of(**plugin));
}

Result<std::vector<std::string>> PluginHost::served_by(std::string_view kind, std::string_view id) {
  const Result<const meshwright_plugin_v1*> plugin = registry_.load(kind, id);
  if (!plugin) return plugin.error();
  std::vector<std::string> names;
  for (const char* const* name = (*plugin)->serves; name != nullptr && *name != nullptr; ++name) {
    names.emplace_back(*name);
  }
  return names;
}

Result<std::string> PluginHost::frontend_for(const std::string& model_path) {
  if (const std::string& named = config_.model.text("frontend"); !named.empty()) return named;
  const std::string suffix = std::filesystem::path(model_path).extension().string();
  std::vector<std::string> known;
  for (const std::string& id : registry_.ids("frontend")) {
    Result<std::vector<std::string>> suffixes = served_by("frontend", id);
    if (!suffixes) return suffixes.error();
    if (std::find(suffixes->begin(), suffixes->end(), suffix) != suffixes->end()) return id;
    known.insert(known.end(), suffixes->begin(), suffixes->end());
  }
  return bad_input(model_path + ": no frontend reads files with the suffix \"" + suffix + "\"" +
                   suggest(suffix, known));
}

Result<std::unique_ptr<OpTable>> PluginHost::op_table() {
  std::vector<FamilyClaims> claims;
  std::map<std::string, std::shared_ptr<const OpFamily>> families;
  for (const std::string& id : registry_.ids("ops")) {
    Result<std::vector<std::string>> ops = served_by("ops", id);
    if (!ops) return ops.error();
    claims.push_back({id, std::move(*ops)});
  }
  const Result<std::map<std::string, std::string>> settled = settle_claims(claims, config_.op_family);
  if (!settled) return settled.error();
  std::map<std::string, std::shared_ptr<const OpFamily>, std::less<>> family_of;
  for (const auto& [op, id] : *settled) {
    std::shared_ptr<const OpFamily>& family = families[id];
    if (family == nullptr) {
      Result<std::shared_ptr<OpFamily>> made = create<OpFamily>("ops", id);
      if (!made) return made.error();
      family = std::move(*made);
    }
    family_of[op] = family;
  }
  return std::unique_ptr<OpTable>(std::make_unique<LoadedOps>(std::move(family_of)));
}

}  // namespace meshwright::host
