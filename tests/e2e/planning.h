// What the end-to-end tests share: the examples, and the pipeline run in this process.
#pragma once

#include <string>
#include <vector>

#include "config/toml_config.h"
#include "plugins/pipeline.h"
#include "plugins/plugin_host.h"

namespace meshwright::test {

inline const std::vector<std::string>& examples() {
  static const std::vector<std::string> names = {"gpt2_small",     "gpt2_map_alpha", "gpt2_map_beta", "gpt2_map_gamma",
                                                 "gpt2_map_delta", "bert_base",      "vit_base"};
  return names;
}

inline std::string example(const std::string& name) { return SOURCE_FOLDER "/examples/" + name + ".pt2"; }
inline std::string tiny(const std::string& name) { return SOURCE_FOLDER "/tests/models/" + name + ".pt2"; }
inline std::string cluster(const std::string& name) { return SOURCE_FOLDER "/configs/clusters/" + name + ".toml"; }

inline host::PluginHost open_host(const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = overrides;
  all.push_back("plugins.paths=[\"" PLUGIN_FOLDER "\"]");
  Result<host::ConfigTree> tree = host::read_config("", all);
  return host::PluginHost::open(std::move(tree).value()).value();
}

inline Result<host::PlanOutcome> plan(host::PlanOptions options) {
  options.set.push_back("plugins.paths=[\"" PLUGIN_FOLDER "\"]");
  Result<host::ConfigTree> tree = host::read_config(options.config, host::overrides_of(options));
  if (!tree) return tree.error();
  Result<host::PluginHost> host = host::PluginHost::open(std::move(*tree));
  if (!host) return host.error();
  return host::run_pipeline(options, *host);
}

}  // namespace meshwright::test
