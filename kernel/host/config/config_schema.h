// Checks what was written against a schema and fills in the defaults. One schema form serves the host's own sections
// (host_schema.h) and every plugin's (plugin.h), so a message about a wrong key reads the same everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "config/config_tree.h"
#include "meshwright/config.h"
#include "meshwright/plugin.h"
#include "meshwright/result.h"

namespace meshwright::host {

using Schema = std::span<const meshwright_config_key_v1>;

// The schema of a loaded plugin.
Schema schema_of(const meshwright_plugin_v1& plugin);

// Section `name` of `tree` (an absent one counts as empty) with every key of `schema`, typed as it says. Errors:
// bad_input with the place and, for an unknown key, the nearest known one; plugin_failed if a default is ill-formed.
Result<Config> check_section(const ConfigTree& tree, std::string_view name, Schema schema);

// Bytes of "75GiB", "512 MiB", "80GB", "1.5TiB", "1024" or "1024B"; K, M, G and T are powers of 1000, Ki, Mi, Gi and Ti
// of 1024. Error: bad_input.
Result<std::int64_t> parse_bytes(std::string_view text);

}  // namespace meshwright::host
