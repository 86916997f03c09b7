// A value inside a JSON document together with where it stands, for readers that check as they read. Such a reader asks
// for what it expects; the first thing that is not so is kept as the document's problem, with its place
// ("graph.nodes[3] .op: ..."), and from then on every question has an empty answer. So a reader asks on and looks at
// the problem at the end, or before it uses an answer as an index.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/json.h"

namespace meshwright::host {

class JsonPlace {
 public:
  // The root. `json` and `problem` outlive every place of the document.
  JsonPlace(const Json& json, std::optional<std::string>& problem) : json_(&json), problem_(&problem) {}

  // A member of an object; a problem if it is absent.
  [[nodiscard]] JsonPlace at(std::string_view key) const;
  // A member that may be absent; a problem only if this is no object.
  [[nodiscard]] std::optional<JsonPlace> find(std::string_view key) const;
  // The members of an object, in their order.
  [[nodiscard]] std::vector<std::pair<std::string, JsonPlace>> members() const;
  // The elements of an array.
  [[nodiscard]] std::vector<JsonPlace> elements() const;
  // Those of an array of just so many; after a problem as many empty ones.
  [[nodiscard]] std::vector<JsonPlace> elements(std::size_t count) const;

  [[nodiscard]] std::int64_t integer(std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                                     std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  // An index into something of `size` elements, which `of` names: "values".
  [[nodiscard]] std::uint32_t index(std::size_t size, std::string_view of) const;
  // Whole or not, in this range.
  [[nodiscard]] double number(double least = -std::numeric_limits<double>::max(),
                              double most = std::numeric_limits<double>::max()) const;
  [[nodiscard]] double seconds() const { return number(0, 1e9); }
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::vector<std::string> texts() const;
  [[nodiscard]] bool is_null() const;

  // The enumerator up to `last` that `word` gives this text for.
  template <class Enum, class Word>
  [[nodiscard]] Enum one_of(Enum last, Word word) const {
    const std::string found = text();
    std::string known;
    for (int i = 0; i <= static_cast<int>(last); ++i) {
      if (found == word(static_cast<Enum>(i))) return static_cast<Enum>(i);
      known += (i > 0 ? ", " : "") + std::string(word(static_cast<Enum>(i)));
    }
    fail("'" + found + "' is none of " + known);
    return Enum{};
  }

  [[nodiscard]] const Json::Value& value() const { return json_->value(); }
  // Keeps "PLACE: what", unless there was a problem before.
  void fail(const std::string& what) const;
  [[nodiscard]] bool failed() const { return problem_->has_value(); }

 private:
  JsonPlace(const Json& json, std::optional<std::string>& problem, std::string path)
      : json_(&json), problem_(&problem), path_(std::move(path)) {}
  [[nodiscard]] JsonPlace nothing() const;
  [[nodiscard]] std::string path_to(std::string_view key) const;
  template <class T>
  const T* expect(std::string_view what) const;

  const Json* json_;
  std::optional<std::string>* problem_;
  std::string path_;
};

}  // namespace meshwright::host
