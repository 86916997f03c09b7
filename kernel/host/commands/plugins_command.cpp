#include "commands/plugins_command.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "config/host_config.h"
#include "config/toml_config.h"
#include "conformance.h"
#include "files/json.h"
#include "files/write_file.h"
#include "nearest_name.h"
#include "plugins/plugin_library.h"
#include "plugins/plugin_registry.h"
#include "plugins/program_source.h"
#include "report/report_error.h"

namespace meshwright::host {
namespace {

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

Result<PluginRegistry> open_registry(const PluginsOptions& options) {
  const Result<ConfigTree> tree = read_config(options.config, options.set);
  if (!tree) return tree.error();
  const Result<HostConfig> config = check_host_config(*tree);
  if (!config) return config.error();
  return PluginRegistry::discover(config->plugin_paths);
}

Json json_of(const PluginInfo& plugin) {
  const Status tag = check_tag(plugin.path, plugin.tag, host_tag(plugin.kind));
  Json json;
  json.add("kind", plugin.kind).add("id", plugin.id).add("version", plugin.version);
  json.add("description", plugin.description).add("path", plugin.path).add("tag", plugin.tag);
  json.add("matches", tag.ok());
  if (!tag) json.add("refusal", tag.error().message);
  return json;
}

std::string list_as_json(const PluginRegistry& registry) {
  Json plugins{Json::Array{}};
  for (const PluginInfo& plugin : registry.list()) plugins.push(json_of(plugin));
  Json notices{Json::Array{}};
  for (const PluginNotice& notice : registry.notices()) {
    notices.push(Json().add("path", notice.path).add("message", notice.message));
  }
  return write_json(Json().add("tag", host_tag("")).add("plugins", plugins).add("notices", notices));
}

std::string list_as_text(const PluginRegistry& registry) {
  std::size_t kind_width = 4;
  std::size_t id_width = 2;
  for (const PluginInfo& plugin : registry.list()) {
    kind_width = std::max(kind_width, plugin.kind.size());
    id_width = std::max(id_width, plugin.id.size());
  }
  std::string text;
  for (const PluginInfo& plugin : registry.list()) {
    text += padded(plugin.kind, kind_width) + "  " + padded(plugin.id, id_width) + "  " + plugin.version + "  " +
            plugin.description + "\n";
    if (const Status tag = check_tag(plugin.path, plugin.tag, host_tag(plugin.kind)); !tag) text += "  refused: " + tag.error().message + "\n";
  }
  if (registry.list().empty()) text += "no plugins in " + install_folder() + " or the other plugin paths\n";
  for (const PluginNotice& notice : registry.notices()) text += "note: " + notice.message + "\n";
  return text;
}

// `name` is ID or KIND/ID.
Result<const PluginInfo*> find_plugin(const PluginRegistry& registry, const std::string& name) {
  if (const std::size_t slash = name.find('/'); slash != std::string::npos) {
    return registry.find(name.substr(0, slash), name.substr(slash + 1));
  }
  std::vector<std::string> known;
  std::vector<const PluginInfo*> found;
  for (const PluginInfo& plugin : registry.list()) {
    known.push_back(plugin.id);
    if (plugin.id == name) found.push_back(&plugin);
  }
  if (found.empty()) return bad_input("no plugin is named \"" + name + "\"" + suggest(name, known));
  if (found.size() > 1) {
    return bad_input("several plugins are named \"" + name + "\"; write \"" + found[0]->kind + "/" + name + "\" or \"" +
                     found[1]->kind + "/" + name + "\"");
  }
  return found[0];
}

std::vector<std::string> served_names(const meshwright_plugin_v1& plugin) {
  std::vector<std::string> names;
  for (const char* const* name = plugin.serves; name != nullptr && *name != nullptr; ++name) names.emplace_back(*name);
  return names;
}

std::string description_as_json(const PluginInfo& info, const meshwright_plugin_v1& plugin) {
  Json json = json_of(info);
  Json serves{Json::Array{}};
  for (const std::string& name : served_names(plugin)) serves.push(name);
  Json keys{Json::Array{}};
  for (const meshwright_config_key_v1& key : schema_of(plugin)) {
    const Json default_text = key.default_text == nullptr ? Json() : Json(key.default_text);
    keys.push(Json()
                  .add("key", key.key)
                  .add("type", key.type)
                  .add("unit", key.unit)
                  .add("default", default_text)
                  .add("doc", key.doc));
  }
  json.add("licence", plugin.licence).add("serves", serves).add("section", plugin_section(info.kind, info.id));
  return write_json(json.add("keys", keys));
}

std::string description_as_text(const PluginInfo& info, const meshwright_plugin_v1& plugin) {
  std::string text = info.kind + "/" + info.id + " " + info.version + " (" + plugin.licence + ")\n" + info.description +
                     "\n\nfile    " + info.path + "\ntag     " + info.tag + "\n";
  std::string serves;
  for (const std::string& name : served_names(plugin)) serves += " " + name;
  if (!serves.empty()) text += "serves " + serves + "\n";
  const Schema schema = schema_of(plugin);
  if (schema.empty()) return text + "\nnothing to configure\n";
  text += "\n[" + plugin_section(info.kind, info.id) + "]\n";
  for (const meshwright_config_key_v1& key : schema) {
    const std::string unit = *key.unit == '\0' ? "" : std::string(", ") + key.unit;
    const std::string value = key.default_text == nullptr ? "..." : key.default_text;
    text += std::string(key.key) + " = " + value + "  # " + key.doc + " (" + key.type + unit +
            (key.default_text == nullptr ? ", must be given" : "") + ")\n";
  }
  return text;
}

// The executed cases of an op family; nothing for other kinds, or where there are no cases.
Result<std::optional<ConformanceReport>> conformance_of(const PluginsOptions& options, const PluginInfo& info) {
  std::optional<ConformanceReport> none;
  if (info.kind != "ops") return none;
  const std::filesystem::path beside = std::filesystem::path(options.subject).replace_extension(".cases.txt");
  const std::string path = options.cases.empty() ? beside.string() : options.cases;
  if (options.cases.empty() && !std::filesystem::exists(path)) return none;
  Result<std::vector<OpCase>> cases = read_op_cases(path);
  if (!cases) return cases.error();
  std::vector<std::string> overrides = options.set;
  overrides.push_back("plugins.paths=[\"" + std::filesystem::absolute(options.subject).string() + "\"]");
  overrides.emplace_back("emit.reference.scatter_partials=1");
  Result<ConfigTree> tree = read_config(options.config, overrides);
  if (!tree) return tree.error();
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return host.error();
  Result<ProgramTools> tools = open_tools(*host, Plan{});
  if (!tools) return tools.error();
  Result<std::shared_ptr<Backend>> backend = host->create<Backend>("backend", "reference");
  if (!backend) return backend.error();
  return std::optional(check_conformance(
      *cases, {*tools->ops, *tools->conversions,
               {tools->parameter_shard.get(), tools->communication.get(), tools->reshape.get()}, **backend}));
}

bool conforms(const ConformanceReport& report) { return report.wrong.empty() && report.not_executed.empty(); }

std::string check_as_text(const std::string& file, const PluginInfo& info, const std::optional<ConformanceReport>& report) {
  std::string text = file + ": accepted, " + info.kind + "/" + info.id + " " + info.version + "\n";
  if (!report) return info.kind == "ops" ? text + "no cases to execute: " + info.id + ".cases.txt is not beside it\n" : text;
  text += std::to_string(report->calls) + " calls in " + std::to_string(report->assignments) +
          " assignments were executed and compared with one device: " +
          (conforms(*report) ? "all equal" : std::to_string(report->wrong.size()) + " wrong") + "\n";
  for (const ConformanceFinding& finding : report->wrong) text += "wrong: " + to_string(finding) + "\n";
  for (const std::string& call : report->not_executed) text += "not executed: " + call + "\n";
  for (const std::string& call : report->replicated) text += "runs replicated: " + call + "\n";
  for (const std::string& call : report->could_shard) text += "could shard: " + call + "\n";
  return text;
}

std::string check_as_json(const PluginInfo& info, const std::optional<ConformanceReport>& report) {
  Json json;
  json.add("accepted", true).add("plugin", json_of(info));
  if (!report) return write_json(json);
  const auto list = [](const std::vector<std::string>& texts) {
    Json array{Json::Array{}};
    for (const std::string& text : texts) array.push(text);
    return array;
  };
  std::vector<std::string> wrong;
  for (const ConformanceFinding& finding : report->wrong) wrong.push_back(to_string(finding));
  json.add("conforms", conforms(*report)).add("calls", report->calls).add("assignments", report->assignments);
  json.add("wrong", list(wrong)).add("not_executed", list(report->not_executed));
  json.add("replicated", list(report->replicated)).add("could_shard", list(report->could_shard));
  return write_json(json);
}

}  // namespace

int list_plugins(const PluginsOptions& options) {
  const Result<PluginRegistry> registry = open_registry(options);
  if (!registry) return report_error(registry.error());
  print(options.format == "json" ? list_as_json(*registry) : list_as_text(*registry));
  return 0;
}

int describe_plugin(const PluginsOptions& options) {
  Result<PluginRegistry> registry = open_registry(options);
  if (!registry) return report_error(registry.error());
  const Result<const PluginInfo*> info = find_plugin(*registry, options.subject);
  if (!info) return report_error(info.error());
  const Result<const meshwright_plugin_v1*> plugin = registry->load((*info)->kind, (*info)->id);
  if (!plugin) return report_error(plugin.error());
  print(options.format == "json" ? description_as_json(**info, **plugin) : description_as_text(**info, **plugin));
  return 0;
}

int check_plugin(const PluginsOptions& options) {
  const Result<PluginInfo> info = read_plugin_info(options.subject);
  Error refusal;
  if (!info) {
    refusal = info.error();
  } else if (const Result<const meshwright_plugin_v1*> plugin = load_plugin(*info); !plugin) {
    refusal = plugin.error();
  } else {
    Result<std::optional<ConformanceReport>> conformance = conformance_of(options, *info);
    if (!conformance) return report_error(conformance.error());
    print(options.format == "json" ? check_as_json(*info, *conformance) : check_as_text(options.subject, *info, *conformance));
    if (!*conformance || conforms(**conformance)) return 0;
    return report_error(plugin_failed(info->kind + "/" + info->id + ": its rules claim what is not so, or cannot be executed"));
  }
  if (options.format == "json") print(write_json(Json().add("accepted", false).add("refusal", refusal.message)));
  return report_error(refusal);
}

}  // namespace meshwright::host
