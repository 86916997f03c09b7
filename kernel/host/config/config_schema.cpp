#include "config/config_schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "config/toml_config.h"
#include "nearest_name.h"

namespace meshwright::host {
namespace {

struct ByteUnit {
  std::string_view name;
  double bytes;
};

constexpr std::array<ByteUnit, 11> kByteUnits = {{{"", 1.0},
                                                  {"B", 1.0},
                                                  {"KB", 1e3},
                                                  {"MB", 1e6},
                                                  {"GB", 1e9},
                                                  {"TB", 1e12},
                                                  {"KiB", 1024.0},
                                                  {"MiB", 1048576.0},
                                                  {"GiB", 1073741824.0},
                                                  {"TiB", 1099511627776.0},
                                                  {"PiB", 1125899906842624.0}}};

std::string what_is_expected(std::string_view type) {
  if (type == "boolean") return "true or false";
  if (type == "integer") return "an integer";
  if (type == "number") return "a number";
  if (type == "text") return "a text in quotes";
  if (type == "texts") return "a list of texts";
  return "a size such as \"75GiB\"";
}

// `value` as `type` demands; integers count as numbers, a size may be an integer or a text, and a text of digits (a mesh
// of one axis, a stage of ZeRO) an integer.
Result<ConfigValue> convert(const ConfigValue& value, std::string_view type) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  if (type == "boolean" && std::holds_alternative<bool>(value)) return value;
  if (type == "integer" && integer != nullptr) return value;
  if (type == "number" && integer != nullptr) return ConfigValue(static_cast<double>(*integer));
  if (type == "number" && std::holds_alternative<double>(value)) return value;
  if (type == "text" && std::holds_alternative<std::string>(value)) return value;
  if (type == "text" && integer != nullptr) return ConfigValue(std::to_string(*integer));
  if (type == "texts" && std::holds_alternative<std::vector<std::string>>(value)) return value;
  if (type == "bytes" && integer != nullptr && *integer >= 0) return value;
  if (const auto* text = std::get_if<std::string>(&value); type == "bytes" && text != nullptr) {
    const Result<std::int64_t> bytes = parse_bytes(*text);
    if (bytes) return ConfigValue(*bytes);
  }
  return bad_input("must be " + what_is_expected(type));
}

std::string in_section(std::string_view name) {
  return name.empty() ? " before the first section" : " in [" + std::string(name) + "]";
}

Result<ConfigValue> default_of(const meshwright_config_key_v1& key, std::string_view section) {
  if (key.default_text == nullptr) {
    return bad_input("the key \"" + std::string(key.key) + "\"" + in_section(section) + " must be given (" + key.doc +
                     ")");
  }
  const Result<ConfigValue> written = parse_config_value(key.default_text);
  if (written) {
    if (Result<ConfigValue> value = convert(*written, key.type)) return value;
  }
  return plugin_failed("the default " + std::string(key.default_text) + " of key \"" + key.key + "\"" +
                       in_section(section) + " is not " + what_is_expected(key.type));
}

}  // namespace

Schema schema_of(const meshwright_plugin_v1& plugin) { return {plugin.config_schema, plugin.config_schema_size}; }

Result<std::int64_t> parse_bytes(std::string_view text) {
  double number = 0.0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const ByteUnit& known : kByteUnits) {
    if (failure != std::errc() || known.name != unit) continue;
    const double bytes = std::round(number * known.bytes);
    if (bytes >= 0.0 && bytes < 9.2e18) return static_cast<std::int64_t>(bytes);
  }
  return bad_input("\"" + std::string(text) + "\" is not a size; write it as 75GiB, 80GB or 1024");
}

Result<Config> check_section(const ConfigTree& tree, std::string_view name, Schema schema) {
  Config config;
  const ConfigSection* section = tree.section(name);
  std::vector<std::string> known;
  for (const meshwright_config_key_v1& key : schema) known.emplace_back(key.key);
  if (section != nullptr) {
    for (const auto& [key, entry] : section->keys) {
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        return bad_input(entry.where + ": unknown key \"" + key + "\"" + in_section(name) + suggest(key, known));
      }
    }
  }
  for (const meshwright_config_key_v1& key : schema) {
    const ConfigEntry* entry = nullptr;
    if (section != nullptr) {
      if (const auto found = section->keys.find(key.key); found != section->keys.end()) entry = &found->second;
    }
    Result<ConfigValue> value = entry == nullptr ? default_of(key, name) : convert(entry->value, key.type);
    if (!value && entry != nullptr) {
      return bad_input(entry->where + ": \"" + key.key + "\"" + in_section(name) + " " + value.error().message);
    }
    if (!value) return value.error();
    config.set(key.key, std::move(*value));
  }
  return config;
}

}  // namespace meshwright::host
