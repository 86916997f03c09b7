#include "meshwright/config.h"

#include <cassert>

namespace meshwright {

namespace {

template <class T>
const T& get(const Config& config, std::string_view key) {
  const auto found = config.values().find(key);
  assert(found != config.values().end() && "the key is missing from the plugin's schema");
  return std::get<T>(found->second);
}

}  // namespace

bool Config::boolean(std::string_view key) const { return get<bool>(*this, key); }
std::int64_t Config::integer(std::string_view key) const { return get<std::int64_t>(*this, key); }
double Config::number(std::string_view key) const { return get<double>(*this, key); }
const std::string& Config::text(std::string_view key) const { return get<std::string>(*this, key); }
const std::vector<std::string>& Config::texts(std::string_view key) const {
  return get<std::vector<std::string>>(*this, key);
}

}  // namespace meshwright
