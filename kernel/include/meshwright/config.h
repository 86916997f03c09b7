// A plugin's configuration: a flat list of typed keys. The host reads TOML, checks it against the plugin's schema,
// fills in the defaults and passes this value; no TOML type crosses the boundary (DESIGN §3). A value that was
// built from a schema holds every key of it, so a missing key is the plugin's own mistake: an assert.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "meshwright/export.h"

namespace meshwright {

using ConfigValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

class Config {
 public:
  void set(std::string key, ConfigValue value) { values_[std::move(key)] = std::move(value); }
  [[nodiscard]] bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  [[nodiscard]] const std::map<std::string, ConfigValue, std::less<>>& values() const { return values_; }

  MESHWRIGHT_API bool boolean(std::string_view key) const;
  MESHWRIGHT_API std::int64_t integer(std::string_view key) const;  // also sizes, in bytes
  MESHWRIGHT_API double number(std::string_view key) const;
  MESHWRIGHT_API const std::string& text(std::string_view key) const;
  MESHWRIGHT_API const std::vector<std::string>& texts(std::string_view key) const;

 private:
  std::map<std::string, ConfigValue, std::less<>> values_;
};

}  // namespace meshwright
