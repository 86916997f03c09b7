// What a plugin says about itself in the text section `.meshwright.plugin` of its file, read without loading it, and
// whether this program may load it.
//
// The text, as MESHWRIGHT_PLUGIN of plugin.h writes it: a first line "meshwright-plugin", then one "key=value" a line:
// kind, id, version, description, tag. Unknown keys are skipped, so that later versions may say more.
#pragma once

#include <string>
#include <string_view>

#include "meshwright/result.h"

namespace meshwright::host {

struct PluginInfo {
  std::string path;  // absolute
  std::string kind;
  std::string id;
  std::string version;
  std::string description;
  std::string tag;
};

// Errors: those of read_elf_section; plugin_failed if the section's text is not of the form above.
Result<PluginInfo> read_plugin_info(const std::string& path);

// The tag that plugins of this kind need to have here: with the hash of the headers that they see, or of all where the kind is
// none of plugin_kinds.txt.
std::string host_tag(std::string_view kind);

// Done if a plugin with this tag may be loaded; else plugin_failed with the first field that differs, both values and
// what to rebuild. `path` only names the plugin in the message.
Status check_tag(const std::string& path, const std::string& tag, const std::string& expected);

}  // namespace meshwright::host
