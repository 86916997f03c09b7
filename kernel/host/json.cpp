#include "json.h"

#include <cassert>
#include <limits>
#include <nlohmann/json.hpp>

namespace meshwright::host {
namespace {

using Library = nlohmann::ordered_json;

Library to_library(const Json& json) {
  return std::visit(
      [](const auto& value) -> Library {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Json::Array>) {
          Library array = Library::array();
          for (const Json& element : value) array.push_back(to_library(element));
          return array;
        } else if constexpr (std::is_same_v<T, Json::Object>) {
          Library object = Library::object();
          for (const auto& [key, member] : value) object[key] = to_library(member);
          return object;
        } else {
          return value;
        }
      },
      json.value());
}

// Far more than any of our files has. Deeper ones would not fit the stack of those who walk through them.
constexpr int kMostDepth = 500;

struct TooDeep {};

Json from_library(const Library& json, int depth = 0) {
  if (depth > kMostDepth) throw TooDeep{};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    return json.get<double>();
  }
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    Json::Array array;
    for (const Library& element : json) array.push_back(from_library(element, depth + 1));
    return array;
  }
  if (json.is_object()) {
    Json::Object object;
    for (const auto& [key, member] : json.items()) object.emplace_back(key, from_library(member, depth + 1));
    return object;
  }
  return nullptr;
}

}  // namespace

Json& Json::add(std::string key, Json value) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Object{};
  assert(find(key) == nullptr && "a key may be added once");
  std::get<Object>(value_).emplace_back(std::move(key), std::move(value));
  return *this;
}

Json& Json::push(Json value) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Array{};
  std::get<Array>(value_).push_back(std::move(value));
  return *this;
}

const Json* Json::find(std::string_view key) const {
  const auto* object = std::get_if<Object>(&value_);
  if (object == nullptr) return nullptr;
  for (const auto& [name, member] : *object) {
    if (name == key) return &member;
  }
  return nullptr;
}

std::string write_json(const Json& value, bool compact) {
  const Library json = to_library(value);
  return json.dump(compact ? -1 : 2, ' ', false, Library::error_handler_t::replace) + "\n";
}

Result<Json> parse_json(std::string_view text, const std::string& name) {
  try {
    return from_library(Library::parse(text));
  } catch (const Library::exception& error) {
    return bad_input(name + ": not valid JSON: " + error.what());
  } catch (const TooDeep&) {
    return bad_input(name + ": nested more than " + std::to_string(kMostDepth) + " deep");
  }
}

}  // namespace meshwright::host
