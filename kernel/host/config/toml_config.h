// Reads the configuration file and the command line's overrides. The only place that knows TOML.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/config_tree.h"
#include "meshwright/result.h"

namespace meshwright::host {

// The file at `path` (none if empty), then `overrides` on top, each "section.key=value". An override's value is read as
// TOML; what is no TOML, such as a bare word or 75GiB, is a text. Errors: bad_input with file and line, or with the
// override, if a file can't be read, is no TOML, or holds a value that no key can have (a date, a mixed list).
Result<ConfigTree> read_config(const std::string& path, std::span<const std::string> overrides);

// The same for a text; `name` stands for the file in messages.
Result<ConfigTree> parse_config(std::string_view text, const std::string& name, std::span<const std::string> overrides);

// One value as TOML writes it, for example a schema's default. Error: bad_input.
Result<ConfigValue> parse_config_value(std::string_view text);

}  // namespace meshwright::host
