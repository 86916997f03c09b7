#include "config/toml_config.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "files/input_file.h"
#include "foreign_text.h"
#include "foreign_toml.h"

namespace meshwright::host {
namespace {

// Where the nodes of one parsed text come from.
struct ConfigSource {
  std::string name;  // the file, or "--set KEY=VALUE"
  std::string base_folder;
  bool has_lines = true;

  [[nodiscard]] std::string at(const toml::node& node) const {
    return has_lines ? name + ":" + std::to_string(node.source().begin.line) : name;
  }
};

std::optional<ConfigValue> scalar_of(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return ConfigValue(value->get());
  if (const auto* value = node.as_integer()) return ConfigValue(value->get());
  if (const auto* value = node.as_floating_point()) return ConfigValue(value->get());
  if (const auto* value = node.as_string()) return ConfigValue(value->get());
  return std::nullopt;
}

Result<ConfigValue> value_of(const toml::node& node, const std::string& where, const std::string& key) {
  if (std::optional<ConfigValue> scalar = scalar_of(node)) return *std::move(scalar);
  const toml::array* array = node.as_array();
  if (array == nullptr) {
    return bad_input(where + ": \"" + key + "\" is a date or a time; no key takes one");
  }
  std::vector<std::string> texts;
  for (const toml::node& element : *array) {
    const auto* text = element.as_string();
    if (text == nullptr) {
      return bad_input(where + ": \"" + key + "\" is a list, but not of texts; write [\"one\", \"two\"]");
    }
    texts.push_back(text->get());
  }
  return ConfigValue(std::move(texts));
}

// Adds `table`'s values to `tree`; values that are there already are replaced.
Status add_table(const toml::table& table, const std::string& path, const ConfigSource& source, ConfigTree& tree) {
  ConfigSection& section = tree.sections[path];
  if (section.where.empty()) section.where = source.at(table);
  for (const auto& [toml_key, node] : table) {
    const std::string key(toml_key.str());
    if (const toml::table* inner = node.as_table()) {
      const std::string inner_path = path.empty() ? key : path + "." + key;
      if (Status added = add_table(*inner, inner_path, source, tree); !added) return added;
      continue;
    }
    const std::string where = source.at(node);
    Result<ConfigValue> value = value_of(node, where, key);
    if (!value) return value.error();
    tree.sections[path].keys[key] = {std::move(*value), where, source.base_folder};
  }
  return Done{};
}

// Errors: bad_input, what the parser must not see.
Status check(std::string_view toml, const ConfigSource& source) {
  const std::string_view why = why_not_toml(toml);
  if (why.empty()) return Done{};
  return bad_input(message_line(source.name, 200) + ": " + std::string(why));
}

Status add_text(std::string_view text, const ConfigSource& source, ConfigTree& tree) {
  if (Status status = check(text, source); !status) return status;
  const toml::parse_result parsed = toml::parse(text, source.name);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return bad_input(source.name + ":" + std::to_string(error.source().begin.line) +
                     ": not valid TOML: " + std::string(error.description()));
  }
  return add_table(parsed.table(), "", source, tree);
}

std::string text_literal(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

Status add_override(const std::string& text, ConfigTree& tree) {
  const ConfigSource source{"--set " + text, "", false};
  if (Status status = check(text.substr(0, text.find('=')), source); !status) return status;
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const bool sound = equals != std::string::npos && text.find('\n') == std::string::npos && toml::parse(key + " = 0");
  if (!sound) return bad_input(source.name + ": not of the form section.key=value");
  const std::string value = text.substr(equals + 1);
  const toml::parse_result as_toml = toml::parse(key + " = " + (why_not_toml(value).empty() ? value : text_literal(value)));
  if (as_toml) return add_table(as_toml.table(), "", source, tree);
  const toml::parse_result as_text = toml::parse(key + " = " + text_literal(value));
  if (!as_text) return bad_input(source.name + ": the value is neither TOML nor a text");
  return add_table(as_text.table(), "", source, tree);
}

}  // namespace

Result<ConfigTree> parse_config(std::string_view text, const std::string& name,
                                std::span<const std::string> overrides) {
  ConfigTree tree;
  const std::string folder = std::filesystem::path(name).parent_path().string();
  if (Status added = add_text(text, ConfigSource{name, folder, true}, tree); !added) return added.error();
  for (const std::string& override_text : overrides) {
    if (Status added = add_override(override_text, tree); !added) return added.error();
  }
  return tree;
}

Result<ConfigTree> read_config(const std::string& path, std::span<const std::string> overrides) {
  if (path.empty()) return parse_config("", "", overrides);
  if (Status status = check_regular(path); !status) return status.error();
  std::ifstream file(path);
  if (!file) return bad_input(path + ": the configuration file can't be read");
  std::ostringstream text;
  text << file.rdbuf();
  return parse_config(text.str(), path, overrides);
}

Result<ConfigValue> parse_config_value(std::string_view text) {
  if (!why_not_toml(text).empty()) return bad_input("not a TOML value: " + message_line(text, 200));
  const toml::parse_result parsed = toml::parse("value = " + std::string(text));
  if (!parsed) return bad_input("not a TOML value: " + std::string(text));
  const toml::table& table = parsed.table();
  if (table.size() != 1) return bad_input("not one TOML value: " + std::string(text));
  return value_of(*table.get("value"), "value", "value");
}

}  // namespace meshwright::host
