// Tells one model file from another.
#pragma once

#include <string>

namespace meshwright::host {

// "fnv1a64:" and 16 hexadecimal digits: FNV-1a over the file's bytes. No protection against malice.
std::string hash_file(const std::string& path);

}  // namespace meshwright::host
