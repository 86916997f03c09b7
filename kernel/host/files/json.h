// A JSON value of our own, so that one .cpp includes the JSON library and everybody else builds values with this
// header.
//
// Objects keep the order in which their keys were added, and numbers are written in the shortest form that reads back
// the same, so equal values give equal bytes.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "meshwright/result.h"

namespace meshwright::host {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object>;

  Json() = default;                                                             // null
  Json(std::nullptr_t) {}                                                       // NOLINT: implicit, to write literals
  Json(bool value) : value_(value) {}                                           // NOLINT
  Json(std::integral auto value) : value_(static_cast<std::int64_t>(value)) {}  // NOLINT
  Json(double value) : value_(value) {}                                         // NOLINT
  Json(const char* value) : value_(std::string(value)) {}                       // NOLINT
  Json(std::string_view value) : value_(std::string(value)) {}                  // NOLINT
  Json(std::string value) : value_(std::move(value)) {}                         // NOLINT
  Json(Array value) : value_(std::move(value)) {}                               // NOLINT
  Json(Object value) : value_(std::move(value)) {}                              // NOLINT

  [[nodiscard]] const Value& value() const { return value_; }

  // Adds `key` at the end of an object (null becomes an empty object first). The key must be new.
  Json& add(std::string key, Json value);
  // Adds an element to an array (null becomes an empty array first).
  Json& push(Json value);
  // The value of `key`, or null if this is no object or has no such key.
  [[nodiscard]] const Json* find(std::string_view key) const;

 private:
  Value value_;
};

// Indented by two spaces and closed by a newline; `compact` puts everything on one line. A number that JSON does not
// know (infinity, NaN) becomes null; bytes that are no UTF-8 are replaced.
std::string write_json(const Json& value, bool compact = false);

// Error: bad_input with `name` and the place.
Result<Json> parse_json(std::string_view text, const std::string& name);

// What a document consists of, in its order, for documents that are too large to be held as values. Each gives whether
// to read on.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool number(std::int64_t value) = 0;  // also 1e18; above 2^63 - 1 it is that
  virtual bool other(std::string_view what) = 0;  // "a text", "a fraction", "true or false", "null"
  virtual bool start_object() = 0;
  virtual bool key(std::string_view key) = 0;
  virtual bool end_object() = 0;
  virtual bool start_array() = 0;
  virtual bool end_array() = 0;
};

// Error: bad_input with `name` and the place, if the text is not JSON. That `events` wants no more is none.
Status scan_json(std::string_view text, const std::string& name, JsonEvents& events);

}  // namespace meshwright::host
