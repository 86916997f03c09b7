// Tables for the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace meshwright::host {

// Columns as wide as their widest cell; the first `left_columns` to the left, the others, numbers, to the right. Each
// line begins with two spaces. Cells are ASCII.
std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t left_columns);

}  // namespace meshwright::host
