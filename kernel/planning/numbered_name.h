// Names that differ in one number, as those of a transformer's layers do, shown as one.
#pragma once

#include <string>

namespace meshwright {

// The first number that is a whole part between dots: "h.11.mlp" → "h.#.mlp" and "11". Without one, the name and "".
struct NumberedName {
  std::string pattern;
  std::string number;
};
NumberedName numbered_name(const std::string& name);

// "h.{0-11}.mlp", or "h.{0..11}.mlp" if not `all` numbers between them are meant.
std::string range_text(const std::string& pattern, const std::string& first, const std::string& last, bool all);

}  // namespace meshwright
