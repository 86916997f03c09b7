#include "files/json.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "foreign_text.h"

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
constexpr std::size_t kMostDepth = 500;

Json from_library(const Library& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    return json.get<double>();
  }
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    Json::Array array;
    for (const Library& element : json) array.push_back(from_library(element));
    return array;
  }
  if (json.is_object()) {
    Json::Object object;
    for (const auto& [key, member] : json.items()) object.emplace_back(key, from_library(member));
    return object;
  }
  return nullptr;
}

// Hands the library's events on to ours.
class Scan final : public Library::json_sax_t {
 public:
  explicit Scan(JsonEvents& events) : events_(events) {}

  std::string problem;

  bool null() override { return events_.other("null"); }
  bool boolean(bool /*value*/) override { return events_.other("true or false"); }
  bool number_integer(std::int64_t value) override { return events_.number(value); }
  bool number_unsigned(std::uint64_t value) override {
    return events_.number(static_cast<std::int64_t>(std::min<std::uint64_t>(value, kMost)));
  }
  bool number_float(double value, const std::string& /*text*/) override {
    if (value != std::floor(value) || value < -static_cast<double>(kMost)) return events_.other("a fraction");
    return events_.number(value >= static_cast<double>(kMost) ? kMost : static_cast<std::int64_t>(value));
  }
  bool string(std::string& /*value*/) override { return events_.other("a text"); }
  bool binary(Library::binary_t& /*value*/) override { return events_.other("bytes"); }
  bool start_object(std::size_t /*count*/) override { return events_.start_object(); }
  bool key(std::string& key) override { return events_.key(key); }
  bool end_object() override { return events_.end_object(); }
  bool start_array(std::size_t /*count*/) override { return events_.start_array(); }
  bool end_array() override { return events_.end_array(); }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const Library::exception& error) override {
    problem = error.what();
    return false;
  }

 private:
  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  JsonEvents& events_;
};

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
  if (nests_deeper(text, kMostDepth)) return bad_input(name + ": nested more than " + std::to_string(kMostDepth) + " deep");
  try {
    return from_library(Library::parse(text));
  } catch (const Library::exception& error) {
    return bad_input(name + ": not valid JSON: " + error.what());
  }
}

Status scan_json(std::string_view text, const std::string& name, JsonEvents& events) {
  if (nests_deeper(text, kMostDepth)) return bad_input(name + ": nested more than " + std::to_string(kMostDepth) + " deep");
  Scan scan(events);
  if (!Library::sax_parse(text, &scan) && !scan.problem.empty()) {
    return bad_input(name + ": not valid JSON: " + scan.problem);
  }
  return Done{};
}

}  // namespace meshwright::host
