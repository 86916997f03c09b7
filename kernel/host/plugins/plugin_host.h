// Plugins and configuration together: what the pipeline asks for a solver, a frontend or the op families.
//
// Owns the checked configuration and the registry. The objects that it creates do not refer to it and may outlive it.
// One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config_tree.h"
#include "config/host_config.h"
#include "meshwright/op.h"
#include "meshwright/result.h"
#include "plugins/plugin_registry.h"

namespace meshwright::host {

class PluginHost {
 public:
  // Checks the host's sections of `tree`, discovers the plugins, and checks that every plugin section names one. Logs
  // the registry's notices as warnings. Errors: those of check_host_config and PluginRegistry::discover; bad_input for
  // a section of an unknown plugin.
  static Result<PluginHost> open(ConfigTree tree);

  [[nodiscard]] const HostConfig& config() const { return config_; }
  [[nodiscard]] const PluginRegistry& registry() const { return registry_; }

  // A new object of the plugin, configured by its section of the configuration (docs/plugin-abi.md says which). T is
  // the interface of `kind`. Errors: those of PluginRegistry::create, and bad_input for keys that its schema lacks.
  template <class T>
  Result<std::shared_ptr<T>> create(std::string_view kind, std::string_view id) {
    const Result<Config> config = plugin_config(kind, id);
    if (!config) return config.error();
    return registry_.create<T>(kind, id, *config);
  }

  // What the plugin is configured with: every key of its schema. Errors: those of create.
  Result<Config> plugin_config(std::string_view kind, std::string_view id);

  // The frontend that the configuration names, or the one that serves the suffix of `model_path`. Error: bad_input.
  Result<std::string> frontend_for(const std::string& model_path);

  // What a plugin's descriptor says that it serves: ops, suffixes, kernels.
  Result<std::vector<std::string>> served_by(std::string_view kind, std::string_view id);

  // Loads every op family and settles who serves which op ([ops]). Errors: those of create and settle_claims.
  Result<std::unique_ptr<OpTable>> op_table();

 private:
  ConfigTree tree_;
  HostConfig config_;
  PluginRegistry registry_;
};

}  // namespace meshwright::host
