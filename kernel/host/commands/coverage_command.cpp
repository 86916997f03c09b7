// `meshwright plugins coverage`.
#include <cstdio>

#include "commands/plugins_command.h"
#include "config/toml_config.h"
#include "files/json.h"
#include "plugins/known_ops.h"
#include "plugins/plugin_host.h"
#include "report/report_error.h"

namespace meshwright::host {

namespace {

struct Coverage {
  std::string name;
  std::size_t ops = 0;
  std::vector<std::string> unserved;
};

Coverage coverage_of(std::string name, std::span<const std::string_view> ops, const OpTable& table) {
  Coverage coverage{std::move(name), ops.size(), {}};
  for (const std::string_view op : ops) {
    if (table.find(op) == nullptr) coverage.unserved.emplace_back(op);
  }
  return coverage;
}

std::string coverage_as_text(const std::vector<Coverage>& coverages) {
  std::string text;
  for (const Coverage& coverage : coverages) {
    text += coverage.name + ": " + std::to_string(coverage.ops - coverage.unserved.size()) + " of " +
            std::to_string(coverage.ops) + " ops have a rule\n";
    for (const std::string& op : coverage.unserved) text += "  runs replicated: " + op + "\n";
  }
  return text;
}

std::string coverage_as_json(const std::vector<Coverage>& coverages) {
  Json json;
  for (const Coverage& coverage : coverages) {
    Json unserved{Json::Array{}};
    for (const std::string& op : coverage.unserved) unserved.push(op);
    json.add(coverage.name, Json()
                                .add("ops", coverage.ops)
                                .add("ruled", coverage.ops - coverage.unserved.size())
                                .add("unruled", std::move(unserved)));
  }
  return write_json(json);
}

}  // namespace

int count_coverage(const PluginsOptions& options) {
  Result<ConfigTree> tree = read_config(options.config, options.set);
  if (!tree) return report_error(tree.error());
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return report_error(host.error());
  const Result<std::unique_ptr<OpTable>> ops = host->op_table();
  if (!ops) return report_error(ops.error());
  const std::vector<Coverage> coverages = {coverage_of("core", core_ops(), **ops),
                                           coverage_of("composites", composite_ops(), **ops)};
  const std::string text = options.format == "json" ? coverage_as_json(coverages) : coverage_as_text(coverages);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace meshwright::host
