#include "files/json_place.h"

#include <array>
#include <charconv>

namespace meshwright::host {

namespace {

// What a message says of a value that is not what was expected.
std::string describe(const Json& json) {
  struct Visitor {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const {
      std::array<char, 40> text{};
      return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
    }
    std::string operator()(const std::string& value) const { return "'" + value.substr(0, 40) + "'"; }
    std::string operator()(const Json::Array&) const { return "an array"; }
    std::string operator()(const Json::Object&) const { return "an object"; }
  };
  return std::visit(Visitor{}, json.value());
}

const Json& null() {
  static const Json value;
  return value;
}

}  // namespace

void JsonPlace::fail(const std::string& what) const {
  if (!failed()) *problem_ = (path_.empty() ? "" : path_ + ": ") + what;
}

JsonPlace JsonPlace::nothing() const { return {null(), *problem_, path_}; }

std::string JsonPlace::path_to(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

template <class T>
const T* JsonPlace::expect(std::string_view what) const {
  const T* found = failed() ? nullptr : std::get_if<T>(&json_->value());
  if (found == nullptr) fail("expected " + std::string(what) + ", not " + describe(*json_));
  return found;
}

std::optional<JsonPlace> JsonPlace::find(std::string_view key) const {
  if (expect<Json::Object>("an object") == nullptr) return std::nullopt;
  const Json* member = json_->find(key);
  if (member == nullptr) return std::nullopt;
  return JsonPlace(*member, *problem_, path_to(key));
}

JsonPlace JsonPlace::at(std::string_view key) const {
  if (const auto member = find(key)) return *member;
  fail("the key '" + std::string(key) + "' is missing");
  return nothing();
}

std::vector<std::pair<std::string, JsonPlace>> JsonPlace::members() const {
  std::vector<std::pair<std::string, JsonPlace>> result;
  const auto* object = expect<Json::Object>("an object");
  if (object == nullptr) return result;
  for (const auto& [key, member] : *object) result.emplace_back(key, JsonPlace(member, *problem_, path_to(key)));
  return result;
}

std::vector<JsonPlace> JsonPlace::elements() const {
  std::vector<JsonPlace> result;
  const auto* array = expect<Json::Array>("an array");
  if (array == nullptr) return result;
  result.reserve(array->size());
  for (const Json& element : *array) {
    result.push_back(JsonPlace(element, *problem_, path_ + "[" + std::to_string(result.size()) + "]"));
  }
  return result;
}

std::vector<JsonPlace> JsonPlace::elements(std::size_t count) const {
  std::vector<JsonPlace> result = elements();
  if (result.size() != count) {
    fail("expected an array of " + std::to_string(count) + ", not of " + std::to_string(result.size()));
  }
  result.resize(count, nothing());
  return result;
}

std::int64_t JsonPlace::integer(std::int64_t least, std::int64_t most) const {
  const auto* number = expect<std::int64_t>("a whole number");
  if (number == nullptr) return 0;
  if (*number >= least && *number <= most) return *number;
  fail(std::to_string(*number) + " is out of range: " +
       (*number < least ? "at least " + std::to_string(least) : "at most " + std::to_string(most)) + " is allowed");
  return 0;
}

std::uint32_t JsonPlace::index(std::size_t size, std::string_view of) const {
  const auto* number = expect<std::int64_t>("a whole number");
  if (number == nullptr) return 0;
  if (*number >= 0 && static_cast<std::uint64_t>(*number) < size) return static_cast<std::uint32_t>(*number);
  fail(std::to_string(*number) + " is out of range: there are " + std::to_string(size) + " " + std::string(of));
  return 0;
}

double JsonPlace::number(double least, double most) const {
  const auto* whole = std::get_if<std::int64_t>(&json_->value());
  const auto* real = whole != nullptr ? nullptr : expect<double>("a number");
  if (whole == nullptr && real == nullptr) return 0;
  const double found = whole != nullptr ? static_cast<double>(*whole) : *real;
  if (found >= least && found <= most) return found;  // a NaN is in no range
  fail(describe(*json_) + " is out of range");
  return 0;
}

bool JsonPlace::boolean() const {
  const auto* flag = expect<bool>("true or false");
  return flag != nullptr && *flag;
}

std::string JsonPlace::text() const {
  const auto* found = expect<std::string>("a text");
  return found ? *found : std::string();
}

std::vector<std::string> JsonPlace::texts() const {
  std::vector<std::string> result;
  for (const JsonPlace& element : elements()) result.push_back(element.text());
  return result;
}

bool JsonPlace::is_null() const { return std::holds_alternative<std::nullptr_t>(json_->value()); }

}  // namespace meshwright::host
