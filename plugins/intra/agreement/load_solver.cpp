#include "load_solver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "meshwright/plugin.h"

namespace meshwright::agreement {

namespace {

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
}

ConfigValue default_of(const meshwright_config_key_v1& key) {
  std::string text = key.default_text;
  std::erase(text, '_');
  const std::string type = key.type;
  if (type == "boolean") return text == "true";
  if (type == "integer") return static_cast<std::int64_t>(std::stoll(text));
  if (type == "number") return std::stod(text);
  return text;
}

}  // namespace

std::unique_ptr<IntraSolver> load_solver(const std::string& id, const Config& overrides) {
  const std::string path = std::string(MESHWRIGHT_INTRA_PLUGINS) + "/" + id + ".so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(dlerror());
  void* symbol = dlsym(library, "meshwright_plugin");
  if (symbol == nullptr) fail(dlerror());
  const auto* plugin = reinterpret_cast<const meshwright_plugin_v1* (*)()>(symbol)();
  Config config;
  for (std::size_t i = 0; i < plugin->config_schema_size; ++i) {
    config.set(plugin->config_schema[i].key, default_of(plugin->config_schema[i]));
  }
  for (const auto& [key, value] : overrides.values()) config.set(key, value);
  Error error;
  void* object = plugin->create(config, error);
  if (object == nullptr) fail(error.message);
  return std::unique_ptr<IntraSolver>(static_cast<IntraSolver*>(object));
}

}  // namespace meshwright::agreement
