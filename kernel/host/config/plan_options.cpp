#include "config/plan_options.h"

namespace meshwright::host {
namespace {

// As a TOML text, so that a mesh of "8" or a path with odd characters is not read as something else.
std::string override_of(const std::string& key, const std::string& value) {
  std::string text = key + "=\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

}  // namespace

std::vector<std::string> overrides_of(const PlanOptions& options) {
  std::vector<std::string> overrides = options.set;
  if (!options.cluster.empty()) overrides.push_back(override_of("cluster.file", options.cluster));
  if (!options.mesh.empty()) overrides.push_back(override_of("cluster.mesh", options.mesh));
  if (!options.memory_budget.empty()) overrides.push_back(override_of("search.memory_budget", options.memory_budget));
  if (!options.intra.empty()) overrides.push_back(override_of("search.intra", options.intra));
  return overrides;
}

}  // namespace meshwright::host
