// How people write an op, where that is not a call of its schema.
#pragma once

#include <string_view>

namespace meshwright::torch {

// {name} stands for an operand or an attribute, [..] is left out where the call does not have what it mentions. A form is
// taken if it mentions everything that the call says. Empty: there is none.
std::string_view form_of(std::string_view op);

}  // namespace meshwright::torch
