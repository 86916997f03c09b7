#include "plugins/plugin_info.h"

#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "meshwright/abi_tag.h"
#include "plugins/elf_section.h"

namespace meshwright::host {
namespace {

constexpr std::string_view kFirstLine = "meshwright-plugin";

// The text up to its terminating zero; empty if there is none or something other than padding follows.
std::string_view only_text(std::string_view section) {
  const std::size_t end = section.find('\0');
  if (end == std::string_view::npos) return {};
  if (section.find_first_not_of('\0', end) != std::string_view::npos) return {};
  return section.substr(0, end);
}

std::vector<std::pair<std::string, std::string>> fields_of(const std::string& tag) {
  std::vector<std::pair<std::string, std::string>> fields;
  std::istringstream words(tag);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) fields.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return fields;
}

std::string remedy(const std::string& field, const std::string& value) {
  if (field == "compiler") return "rebuild the plugin with " + value;
  if (field == "standard") return "rebuild the plugin as " + value;
  if (field == "stdlib") return "rebuild the plugin against " + value;
  if (field == "stdlib_debug") {
    return std::string("rebuild the plugin ") + (value == "on" ? "with" : "without") + " _GLIBCXX_DEBUG";
  }
  if (field == "sanitizer") {
    return value == "none" ? "rebuild the plugin without a sanitizer"
                           : "rebuild the plugin with the " + value + " sanitizer";
  }
  if (field == "kernel") return "rebuild the plugin against meshwright " + value;
  return "rebuild the plugin against the headers of this meshwright";
}

}  // namespace

Result<PluginInfo> read_plugin_info(const std::string& path) {
  Result<std::string> section = read_elf_section(path, ".meshwright.plugin");
  if (!section) return section.error();
  std::istringstream lines{std::string(only_text(*section))};
  std::string line;
  std::map<std::string, std::string> values;
  const bool ours = std::getline(lines, line) && line == kFirstLine;
  while (ours && std::getline(lines, line)) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) values[line.substr(0, equals)] = line.substr(equals + 1);
  }
  for (const char* key : {"kind", "id", "version", "description", "tag"}) {
    if (values[key].empty()) {
      return plugin_failed(path +
                           ": the section .meshwright.plugin does not hold exactly one plugin's kind, id, "
                           "version, description and tag; use MESHWRIGHT_PLUGIN once");
    }
  }
  return PluginInfo{path, values["kind"], values["id"], values["version"], values["description"], values["tag"]};
}

std::string host_tag(std::string_view kind) { return abi::for_kind(MESHWRIGHT_ABI_TAG, kind).data; }

Status check_tag(const std::string& path, const std::string& tag, const std::string& expected) {
  if (tag == expected) return Done{};
  std::map<std::string, std::string> found;
  for (auto& [field, value] : fields_of(tag)) found[field] = value;
  for (const auto& [field, value] : fields_of(expected)) {
    const auto place = found.find(field);
    const std::string theirs = place == found.end() ? "nothing" : place->second;
    if (theirs != value) {
      return plugin_failed(path + ": the plugin was built with " + field + " \"" + theirs +
                           "\", but this meshwright with \"" + value + "\"; " + remedy(field, value));
    }
  }
  return plugin_failed(path + ": the plugin's tag \"" + tag + "\" says more than this meshwright's \"" + expected +
                       "\"; rebuild the plugin against the headers of this meshwright");
}

}  // namespace meshwright::host
