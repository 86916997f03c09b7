// The configuration as written: sections with typed keys, and where each was written, for messages. No schema is
// applied yet (config_schema.h) and no TOML type is visible (toml_config.h reads it).
//
// A section's name is its dotted path ("search.elimination"); keys before the first section stand in section "". Under
// [ops] a key is an op's name, dots included.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "meshwright/config.h"

namespace meshwright::host {

struct ConfigEntry {
  ConfigValue value;
  std::string where;        // "configs/demo.toml:12" or "--set search.intra=..."
  std::string base_folder;  // what a relative path in the value is relative to: the file's folder, or "" with --set
};

struct ConfigSection {
  std::string where;
  std::map<std::string, ConfigEntry, std::less<>> keys;
};

struct ConfigTree {
  std::map<std::string, ConfigSection, std::less<>> sections;

  [[nodiscard]] const ConfigSection* section(std::string_view name) const {
    const auto found = sections.find(name);
    return found == sections.end() ? nullptr : &found->second;
  }
};

}  // namespace meshwright::host
