#include "case_runner.h"

#include <algorithm>
#include <filesystem>

#include "config/toml_config.h"

namespace meshwright::test {

Result<host::PluginHost> open_host(std::vector<std::string> overrides) {
  overrides.emplace_back("plugins.paths=[\"" PLUGIN_FOLDER "\"]");
  Result<host::ConfigTree> tree = host::read_config("", overrides);
  if (!tree) return tree.error();
  return host::PluginHost::open(std::move(*tree));
}

std::unique_ptr<OpTable> open_ops() {
  host::PluginHost host = open_host().value();
  return host.op_table().value();
}

std::vector<std::string> families_with_cases() {
  std::vector<std::string> families;
  for (const auto& folder : std::filesystem::directory_iterator(SOURCE_FOLDER "/plugins/ops")) {
    if (std::filesystem::exists(folder.path() / "cases.txt")) families.push_back(folder.path().filename().string());
  }
  std::sort(families.begin(), families.end());
  return families;
}

std::vector<OpCase> read_cases(const std::string& family) {
  std::vector<OpCase> cases = read_op_cases(SOURCE_FOLDER "/plugins/ops/" + family + "/cases.txt").value();
  for (OpCase& op_case : cases) op_case.file = family;
  return cases;
}

}  // namespace meshwright::test
