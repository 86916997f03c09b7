// Names that differ in one number, as those of a transformer's layers do, shown as one.
#pragma once

#include <set>
#include <string>

namespace meshwright {

// The first number of at most nine digits that is a whole part between dots: "h.11.mlp" → "h.#.mlp" and "11". Without one, the name and "".
struct NumberedName {
  std::string pattern;
  std::string number;
};
NumberedName numbered_name(const std::string& name);

// Numbers of names with one pattern; "" is none.
class NameNumbers {
 public:
  void add(const std::string& number) {
    if (!number.empty()) numbers_.insert(std::stoul(number));
  }
  // "h.{0-11}.mlp", "h.{0-2,5}.mlp", of many runs the first two and the end, "h.{0,2..10}.mlp"; "h.3.mlp" of one number.
  [[nodiscard]] std::string text(const std::string& pattern) const;

 private:
  std::set<unsigned long> numbers_;
};

}  // namespace meshwright
