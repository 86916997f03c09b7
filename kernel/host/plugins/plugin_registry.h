// The plugins that this program can see, and the way to load them by kind and name.
//
// Discovery reads text sections only; nothing is loaded until it is asked for by name. The search order is: the
// configuration's paths, the folders of MESHWRIGHT_PLUGIN_PATH, the install folder (see install_folder). In
// each folder F the files F/*.so and F/*/*.so are read in the order of their names, so the answer is the same on every
// run. The first plugin of a (kind, id) wins; later ones, and files that are no plugins, are kept as `notices`.
//
// Owns nothing that dies: libraries stay loaded until the process ends, so objects may outlive the registry. Not
// thread-safe; one thread loads.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwright/config.h"
#include "meshwright/plugin.h"
#include "meshwright/result.h"
#include "plugins/plugin_info.h"

namespace meshwright::host {

// Something a user should know about a file in the search path: not a plugin, or shadowed by an earlier one.
struct PluginNotice {
  std::string path;
  std::string message;
};

class PluginRegistry {
 public:
  // Searches `config_paths` (folders or files), then MESHWRIGHT_PLUGIN_PATH, then the install folder. Error: bad_input
  // if a path of the first two doesn't exist.
  static Result<PluginRegistry> discover(const std::vector<std::string>& config_paths);

  // Searches exactly `paths`, each a folder or a file.
  static Result<PluginRegistry> discover_in(const std::vector<std::string>& paths);

  // Sorted by kind, then id. A plugin whose tag doesn't match is listed too; loading it gives the reason.
  [[nodiscard]] const std::vector<PluginInfo>& list() const { return plugins_; }
  [[nodiscard]] const std::vector<PluginNotice>& notices() const { return notices_; }
  [[nodiscard]] std::vector<std::string> ids(std::string_view kind) const;

  // The plugin's info. Error: bad_input with the nearest known name, and what is wrong with a file of that name.
  [[nodiscard]] Result<const PluginInfo*> find(std::string_view kind, std::string_view id) const;

  // Loads the plugin's library, once, and gives its checked descriptor. Errors: those of find and of load_plugin.
  Result<const meshwright_plugin_v1*> load(std::string_view kind, std::string_view id);

  // A new object of the plugin, which `config` (already checked against its schema) configures. T is the interface of
  // the kind (plugin.h). The last owner gives it back to the plugin's `destroy`. Errors: those of load; plugin_failed
  // or what the plugin says if `create` throws or returns null.
  template <class T>
  Result<std::shared_ptr<T>> create(std::string_view kind, std::string_view id, const Config& config) {
    Result<std::shared_ptr<void>> object = create_object(kind, id, config);
    if (!object) return object.error();
    return std::static_pointer_cast<T>(*object);
  }

 private:
  Result<std::shared_ptr<void>> create_object(std::string_view kind, std::string_view id, const Config& config);
  void add_file(const std::string& path);

  std::vector<PluginInfo> plugins_;
  std::vector<PluginNotice> notices_;
  std::map<std::pair<std::string, std::string>, const meshwright_plugin_v1*, std::less<>> loaded_;
};

// The folder `plugins` beside the running program, as a build leaves it; if that is absent,
// `../lib/meshwright/plugins`, as `cmake --install` leaves it.
std::string install_folder();

}  // namespace meshwright::host
