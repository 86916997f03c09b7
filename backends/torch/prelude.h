// The part of an emitted program that is the same for all plans, sharding.py: Python definitions of the backend's own
// (backends/torch/prelude) and of emitters, of which a program gets those that it uses.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/result.h"

namespace meshwright::torch {

struct Definition {
  std::string name;
  std::string text;
  std::set<std::string, std::less<>> words;  // that are mentioned outside of comments and docstrings
};

struct Import {
  std::string name;  // that it binds
  std::string line;
  auto operator<=>(const Import&) const = default;
};

class Prelude {
 public:
  Prelude();  // the backend's own

  // Definitions at the text's top level, and the imports that they need, one line each; those from `sharding` are of what is
  // written beside them. What is here already is passed over. Errors: bad_input, a name that is defined otherwise here.
  Status add(std::string_view text);
  Status add(const Prelude& other);

  [[nodiscard]] std::set<std::string> names() const;

  struct Part {
    std::string imports, definitions;
    std::vector<std::string> mentioned;  // by the body itself, sorted
  };
  // The definitions that `body` mentions, and those that these mention, in the order in which they were added; but for AXES, STAGES
  // and their like, which a program has of its plan.
  [[nodiscard]] Part used_by(std::string_view body) const;

 private:
  Status add(std::vector<Definition> definitions, std::set<Import> imports);

  std::vector<Definition> definitions_;
  std::set<Import> imports_;
};

// Lines that import: Python's own before PyTorch's, `import` before `from`.
std::string import_lines(std::vector<std::string> lines);

}  // namespace meshwright::torch
