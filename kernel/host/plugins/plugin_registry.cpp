#include "plugins/plugin_registry.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <sstream>
#include <tuple>

#include "nearest_name.h"
#include "plugins/plugin_library.h"

namespace meshwright::host {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> environment_paths() {
  std::vector<std::string> paths;
  const char* variable = std::getenv("MESHWRIGHT_PLUGIN_PATH");
  std::istringstream parts(variable == nullptr ? "" : variable);
  for (std::string part; std::getline(parts, part, ':');) {
    if (!part.empty()) paths.push_back(part);
  }
  return paths;
}

// Entries of `folder` in the order of their names; a folder that can't be read is an error of the caller's path.
Result<std::vector<fs::path>> entries_of(const fs::path& folder) {
  std::error_code failure;
  fs::directory_iterator entries(folder, failure);
  if (failure) return bad_input(folder.string() + ": can't be read as a folder of plugins (" + failure.message() + ")");
  std::vector<fs::path> paths;
  for (; entries != fs::directory_iterator(); entries.increment(failure)) paths.push_back(entries->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Plugin files under `path`, which is one itself or a folder with `*.so` and `*/*.so`.
Result<std::vector<std::string>> plugin_files(const fs::path& path) {
  std::error_code failure;
  if (!fs::exists(path, failure)) {
    return bad_input("plugin path " + path.string() + ": there is no such file or folder");
  }
  if (!fs::is_directory(path, failure)) return std::vector<std::string>{path.string()};
  std::vector<std::string> files;
  const Result<std::vector<fs::path>> entries = entries_of(path);
  if (!entries) return entries.error();
  for (const fs::path& entry : *entries) {
    if (fs::is_directory(entry, failure)) {
      const Result<std::vector<fs::path>> inner = entries_of(entry);
      if (!inner) return inner.error();
      for (const fs::path& file : *inner) {
        if (file.extension() == ".so") files.push_back(file.string());
      }
    } else if (entry.extension() == ".so") {
      files.push_back(entry.string());
    }
  }
  return files;
}

}  // namespace

std::string install_folder() {
  std::error_code failure;
  const fs::path program = fs::read_symlink("/proc/self/exe", failure);
  const fs::path folder = failure ? fs::path(".") : program.parent_path();
  const fs::path installed = folder.parent_path() / "lib" / "meshwright" / "plugins";
  if (!fs::is_directory(folder / "plugins", failure) && fs::is_directory(installed, failure)) return installed.string();
  return (folder / "plugins").string();
}

Result<PluginRegistry> PluginRegistry::discover(const std::vector<std::string>& config_paths) {
  std::vector<std::string> paths = config_paths;
  for (std::string& path : environment_paths()) paths.push_back(std::move(path));
  // A program without plugins beside it is allowed: what is then missing is named when it is asked for.
  if (std::error_code failure; fs::is_directory(install_folder(), failure)) paths.push_back(install_folder());
  return discover_in(paths);
}

Result<PluginRegistry> PluginRegistry::discover_in(const std::vector<std::string>& paths) {
  PluginRegistry registry;
  for (const std::string& path : paths) {
    const Result<std::vector<std::string>> files = plugin_files(fs::absolute(path).lexically_normal());
    if (!files) return files.error();
    for (const std::string& file : *files) registry.add_file(file);
  }
  std::sort(registry.plugins_.begin(), registry.plugins_.end(),
            [](const PluginInfo& a, const PluginInfo& b) { return std::tie(a.kind, a.id) < std::tie(b.kind, b.id); });
  return registry;
}

void PluginRegistry::add_file(const std::string& path) {
  Result<PluginInfo> info = read_plugin_info(path);
  if (!info) {
    notices_.push_back({path, info.error().message});
    return;
  }
  for (const PluginInfo& known : plugins_) {
    if (known.kind != info->kind || known.id != info->id) continue;
    std::error_code failure;
    if (fs::equivalent(known.path, path, failure)) return;
    notices_.push_back({path, path + ": not used, because plugin \"" + known.id + "\" of kind \"" + known.kind +
                                  "\" was found first at " + known.path});
    return;
  }
  plugins_.push_back(std::move(*info));
}

std::vector<std::string> PluginRegistry::ids(std::string_view kind) const {
  std::vector<std::string> ids;
  for (const PluginInfo& plugin : plugins_) {
    if (plugin.kind == kind) ids.push_back(plugin.id);
  }
  return ids;
}

Result<const PluginInfo*> PluginRegistry::find(std::string_view kind, std::string_view id) const {
  for (const PluginInfo& plugin : plugins_) {
    if (plugin.kind == kind && plugin.id == id) return &plugin;
  }
  std::string message =
      "no plugin of kind \"" + std::string(kind) + "\" is named \"" + std::string(id) + "\"" + suggest(id, ids(kind));
  for (const PluginNotice& notice : notices_) {
    if (fs::path(notice.path).stem() == id) message += "; note " + notice.message;
  }
  return bad_input(std::move(message));
}

Result<const meshwright_plugin_v1*> PluginRegistry::load(std::string_view kind, std::string_view id) {
  const Result<const PluginInfo*> info = find(kind, id);
  if (!info) return info.error();
  const std::pair<std::string, std::string> name((*info)->kind, (*info)->id);
  if (const auto found = loaded_.find(name); found != loaded_.end()) return found->second;
  Result<const meshwright_plugin_v1*> plugin = load_plugin(**info);
  if (plugin) loaded_.emplace(name, *plugin);
  return plugin;
}

Result<std::shared_ptr<void>> PluginRegistry::create_object(std::string_view kind, std::string_view id,
                                                            const Config& config) {
  const Result<const meshwright_plugin_v1*> plugin = load(kind, id);
  if (!plugin) return plugin.error();
  const std::string where = "plugin \"" + std::string(id) + "\" of kind \"" + std::string(kind) + "\"";
  Error error{ErrorCode::plugin_failed, ""};
  void* object = nullptr;
  try {
    object = (*plugin)->create(config, error);
  } catch (const std::exception& thrown) {
    return plugin_failed(where + " threw while it was created: " + thrown.what());
  } catch (...) {
    return plugin_failed(where + " threw something that is no std::exception while it was created");
  }
  if (object == nullptr) {
    return add_context(where + " could not be created",
                       error.message.empty() ? plugin_failed("it gives no reason") : error);
  }
  return std::shared_ptr<void>(object, (*plugin)->destroy);
}

}  // namespace meshwright::host
