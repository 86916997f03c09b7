// What a plan that a written file stands for takes beside the plan that it was made from, in words.
#pragma once

#include <string>

#include "plugins/asked_price.h"

namespace meshwright::host {

// Lines of a comment.
std::string price_text(const AskedPrice& price);

}  // namespace meshwright::host
