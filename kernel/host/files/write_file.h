// Writes an output file so that it appears whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "meshwright/result.h"

namespace meshwright::host {

// Replaces the file at `path` by `content`: writes a temporary file beside it and renames it, so that a reader sees the
// old file or the new one, and a failure leaves the old one. Missing folders are made. Something that is no regular
// file
// (/dev/null, a pipe) is written to directly. Error: bad_input with the system's reason.
Status write_file_atomically(const std::string& path, std::string_view content);

// Writes to standard output.
void print(std::string_view text);

}  // namespace meshwright::host
