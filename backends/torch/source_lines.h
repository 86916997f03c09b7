// Lines of Python, paths of modules, and names of variables.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/program.h"

namespace meshwright::torch {

// The line with its end, broken where it is wider than 120: at the commas of its last bracket that is not inside of another
// one, and again what is still too wide.
std::string wrapped(const std::string& indent, const std::string& text);

std::vector<std::string> split(const std::string& path);  // at dots
bool is_number(const std::string& text);

// Whether a member can be written as `self.NAME`: an identifier that, at the root of a class, no method of a planned
// model hides. Others are written as `self["NAME"]` (prelude/modules.py, Parts).
bool is_attribute(const std::string& name, bool root);

// "self.transformer.h[0].weight" of "transformer.h.0.weight"
std::string self_path(const std::string& path);

// `path` without `prefix`, under which it is; "" if it is not.
std::string relative(const std::string& path, const std::string& prefix);

// Names of values in one function, by the names that they have in the model.
class Names {
 public:
  explicit Names(std::set<std::string> defined) : defined_(std::move(defined)) {}  // what the prelude defines is no variable's name

  std::string of(ProgramValueId value, const Program& program);
  void take(ProgramValueId value, const std::string& name);

 private:
  std::string unused(const std::string& wanted);

  std::set<std::string> defined_;
  std::map<ProgramValueId, std::string> names_;
  std::map<std::string, int> used_;
};

}  // namespace meshwright::torch
