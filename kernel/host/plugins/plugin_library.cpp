#include "plugins/plugin_library.h"

#include <dlfcn.h>

#include <array>
#include <boost/dll/shared_library.hpp>
#include <cstdio>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

namespace meshwright::host {
namespace {

using EntryPoint = const meshwright_plugin_v1*() noexcept;

std::string hexadecimal(std::uint64_t number) {
  std::array<char, 19> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(number));
  return text.data();
}

bool is_config_type(std::string_view type) {
  for (const std::string_view known : {"boolean", "integer", "number", "text", "texts", "bytes"}) {
    if (type == known) return true;
  }
  return false;
}

Status check_strings(const std::string& path, const meshwright_plugin_v1& plugin) {
  const std::pair<const char*, const char*> fields[] = {
      {"abi_tag", plugin.abi_tag}, {"kind", plugin.kind},       {"id", plugin.id},
      {"version", plugin.version}, {"licence", plugin.licence}, {"description", plugin.description}};
  for (const auto& [name, value] : fields) {
    if (value == nullptr || *value == '\0') {
      return plugin_failed(path + ": the plugin's descriptor has no " + name + "; every plugin must state it");
    }
  }
  return Done{};
}

Status check_agrees(const PluginInfo& info, const meshwright_plugin_v1& plugin) {
  const std::pair<const char*, std::pair<std::string_view, std::string_view>> fields[] = {
      {"abi_tag", {info.tag, plugin.abi_tag}},
      {"kind", {info.kind, plugin.kind}},
      {"id", {info.id, plugin.id}},
      {"version", {info.version, plugin.version}}};
  for (const auto& [name, values] : fields) {
    if (values.first != values.second) {
      return plugin_failed(info.path + ": the plugin's " + name + " is \"" + std::string(values.first) +
                           "\" in the section .meshwright.plugin, but \"" + std::string(values.second) +
                           "\" in its descriptor; write both with MESHWRIGHT_PLUGIN");
    }
  }
  return Done{};
}

Status check_schema(const std::string& path, const meshwright_plugin_v1& plugin) {
  if (plugin.config_schema == nullptr && plugin.config_schema_size != 0) {
    return plugin_failed(path + ": the plugin's configuration schema is null, but its size is not zero");
  }
  for (std::size_t i = 0; i < plugin.config_schema_size; ++i) {
    const meshwright_config_key_v1& key = plugin.config_schema[i];
    const bool whole = key.key != nullptr && key.type != nullptr && key.unit != nullptr && key.doc != nullptr;
    if (!whole || !is_config_type(key.type)) {
      return plugin_failed(path + ": key " + std::to_string(i) +
                           " of the plugin's configuration schema lacks a name, " +
                           "a unit or a doc, or has an unknown type");
    }
  }
  return Done{};
}

Status check_descriptor(const PluginInfo& info, const meshwright_plugin_v1& plugin) {
  const std::string& path = info.path;
  if (plugin.magic != MESHWRIGHT_PLUGIN_MAGIC) {
    return plugin_failed(path + ": the plugin's magic number is " + hexadecimal(plugin.magic) + ", not " +
                         hexadecimal(MESHWRIGHT_PLUGIN_MAGIC) + "; write its descriptor with MESHWRIGHT_PLUGIN");
  }
  if (plugin.abi_version != MESHWRIGHT_PLUGIN_ABI_VERSION) {
    return plugin_failed(path + ": the plugin has ABI version " + std::to_string(plugin.abi_version) +
                         ", but this meshwright has " + std::to_string(MESHWRIGHT_PLUGIN_ABI_VERSION) +
                         "; rebuild the plugin against the headers of this meshwright");
  }
  if (plugin.struct_size != sizeof(meshwright_plugin_v1)) {
    return plugin_failed(path + ": the plugin's descriptor has " + std::to_string(plugin.struct_size) +
                         " bytes, but version 1 has " + std::to_string(sizeof(meshwright_plugin_v1)) +
                         "; rebuild the plugin against the headers of this meshwright");
  }
  if (Status strings = check_strings(path, plugin); !strings) return strings;
  if (Status agrees = check_agrees(info, plugin); !agrees) return agrees;
  if (plugin.create == nullptr || plugin.destroy == nullptr) {
    return plugin_failed(path + ": the plugin's descriptor has no create or no destroy function");
  }
  return check_schema(path, plugin);
}

// dlerror says "FILE: reason"; the caller has named the file already.
std::string loading_failure(const std::string& path) {
  const char* reason = ::dlerror();
  std::string text = reason == nullptr ? "no reason given" : reason;
  if (text.starts_with(path + ": ")) text.erase(0, path.size() + 2);
  return text;
}

// Takes a library for the rest of the process: objects and log lines of a plugin may outlive every owner we could name,
// so the list itself is never destroyed either.
const boost::dll::shared_library& keep(boost::dll::shared_library library) {
  static auto& kept = *new std::deque<boost::dll::shared_library>;
  return kept.emplace_back(std::move(library));
}

}  // namespace

Result<const meshwright_plugin_v1*> load_plugin(const PluginInfo& info) {
  if (Status tag = check_tag(info.path, info.tag, host_tag(info.kind)); !tag) return tag.error();

  boost::dll::shared_library library;
  std::error_code failure;
  library.load(info.path, failure, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  if (failure) {
    return plugin_failed(info.path + ": the system can't load it (" + loading_failure(info.path) +
                         "); link the plugin against everything it uses");
  }
  const boost::dll::shared_library& loaded = keep(std::move(library));
  if (!loaded.has("meshwright_plugin")) {
    return plugin_failed(info.path + ": exports no function meshwright_plugin; build it with add_plugin()");
  }
  const meshwright_plugin_v1* plugin = loaded.get<EntryPoint>("meshwright_plugin")();
  if (plugin == nullptr) return plugin_failed(info.path + ": its function meshwright_plugin returns null");
  if (Status checked = check_descriptor(info, *plugin); !checked) return checked.error();
  return plugin;
}

}  // namespace meshwright::host
