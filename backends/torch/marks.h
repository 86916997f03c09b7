// Marks in the text of statements, which stand for what has no name yet.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "meshwright/program.h"

namespace meshwright::torch {

// In a statement's text, a value of the program and a member of the model ("transformer.wte.weight"): what they are
// called depends on the class that the statement ends up in.
std::string value_mark(ProgramValueId value);
std::string member_mark(const std::string& path);

// The values and members that a text mentions, in order.
std::vector<ProgramValueId> values_in(const std::string& text);
std::vector<std::string> members_in(const std::string& text);

// The text with every mark replaced.
std::string without_marks(const std::string& text, const std::function<std::string(ProgramValueId)>& value,
                          const std::function<std::string(const std::string&)>& member);

}  // namespace meshwright::torch
